import type { Key } from '@taskmaster/engine/domain';
import type {
  Family,
  KeyRange,
  Row,
  ScanLimit,
  Store,
  StoreSize,
  StoreState,
  WriteBatch,
} from '@taskmaster/engine/ports';

/** A store that reports the size and duration of each synced write. */
export class MeteredStore implements Store {
  readonly #store: Store;
  readonly #committed: (bytes: number, durationMs: number) => void;

  constructor(store: Store, committed: (bytes: number, durationMs: number) => void) {
    this.#store = store;
    this.#committed = committed;
  }

  get atomicBatches(): boolean {
    return this.#store.atomicBatches;
  }

  get state(): StoreState {
    return this.#store.state;
  }

  async write(batch: WriteBatch, options: { readonly sync: boolean }): Promise<void> {
    const began = performance.now();
    const { byteLength } = batch;
    await this.#store.write(batch, options);
    if (options.sync) this.#committed(byteLength, performance.now() - began);
  }

  get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    return this.#store.get(family, keys);
  }

  scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    return this.#store.scan(family, range, limit);
  }

  deleteRange(family: Family, range: KeyRange): Promise<void> {
    return this.#store.deleteRange(family, range);
  }

  onStateChange(listener: (state: StoreState) => void): void {
    this.#store.onStateChange(listener);
  }

  size(): StoreSize {
    return this.#store.size();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
