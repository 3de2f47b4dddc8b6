import type { Key } from '../domain/ids.ts';
import {
  type Family,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  StoreClosedError,
  type StoreSize,
  type StoreState,
} from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';
import { changesOf, MemoryRows, type RowChange } from './memory-rows.ts';

const NO_LIMIT: ScanLimit = { rows: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };

/** A store in memory, without files. It takes effect at once, never fails and is never full. Its rows outlive it. */
export class MemoryStore implements Store {
  readonly atomicBatches = true;
  readonly state: StoreState = { kind: 'writable' };
  readonly #rows: MemoryRows;
  #isClosed = false;

  constructor(rows = new MemoryRows()) {
    this.#rows = rows;
  }

  async write(batch: WriteBatch): Promise<void> {
    this.#apply(() => changesOf(batch));
  }

  async deleteRange(family: Family, range: KeyRange): Promise<void> {
    this.#apply(() => this.#rows.scan(family, range, NO_LIMIT).map(({ key }) => ({ family, key, value: undefined })));
  }

  async get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    this.#assertOpen();
    return keys.map((key) => {
      const value = this.#rows.get(family, key);
      return value && Buffer.from(value);
    });
  }

  async scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    this.#assertOpen();
    return this.#rows.scan(family, range, limit).map(({ key, value }) => ({ key, value: Buffer.from(value) }));
  }

  /** The state never changes. */
  onStateChange(): void {}

  /** The rows stand for what another store has on disk. */
  size(): StoreSize {
    return { disk: this.#rows.bytes, memory: 0 };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #apply(changesNow: () => readonly RowChange[]): void {
    this.#assertOpen();
    this.#rows.apply(changesNow());
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new StoreClosedError('the store is closed');
  }
}
