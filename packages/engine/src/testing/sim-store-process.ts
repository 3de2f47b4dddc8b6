import type { Key } from '../domain/ids.ts';
import { changesOf, type MemoryRows, type RowChange } from '../memory/memory-rows.ts';
import {
  type Family,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  StoreClosedError,
  StoreCorruptError,
  StoreFullError,
  type StoreSize,
  type StoreState,
} from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

/** A call on a store whose process has crashed. */
export class SimCrashedError extends Error {
  override readonly name = 'SimCrashedError';
}

/** The part of the simulated disk that its open store uses. */
export interface SimProcessDisk {
  readonly atomicBatches: boolean;
  readonly space: 'plenty' | 'short' | 'none';
  isDamaged(family: Family, key: Key): boolean;
  /** Resolves after the simulated duration of a read. */
  reading(): Promise<void>;
  /**
   * Writes a group of batches, or the deletions of a range, and syncs them if `sync` is set. Resolves with false if the
   * process crashed meanwhile. Rejects with the error that the store must reject with.
   */
  commit(
    kind: 'write' | 'deleteRange',
    changesNow: () => RowChange[][],
    sync: boolean,
    alive: () => boolean,
  ): Promise<boolean>;
  /** Called when the store was closed in good order. */
  closed(store: SimStore, alive: () => boolean): Promise<void>;
}

interface Pending {
  readonly work:
    | { readonly kind: 'write'; readonly batch: WriteBatch; readonly sync: boolean }
    | { readonly kind: 'deleteRange'; readonly family: Family; readonly range: KeyRange };
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Limit of the promises between the store and a caller that must learn of a refusal. */
const PROMISES_TO_CALLERS = 50;

const NO_LIMIT: ScanLimit = { rows: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };

/** A store on a simulated disk. Made by `SimDisk.open`. */
export class SimStore implements Store {
  readonly atomicBatches: boolean;
  readonly #disk: SimProcessDisk;
  readonly #rows: MemoryRows;
  readonly #queue: Pending[] = [];
  readonly #listeners: ((state: StoreState) => void)[] = [];
  #life: 'open' | 'closed' | 'crashed' = 'open';
  #pumping: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #failure: Error | undefined;
  /** A refusal that may not have reached its caller yet. Until then new writes are refused, too: they may depend on it. */
  #refusal: StoreFullError | undefined;
  #state: StoreState = { kind: 'writable' };

  constructor(disk: SimProcessDisk, rows: MemoryRows) {
    this.#disk = disk;
    this.#rows = rows;
    this.atomicBatches = disk.atomicBatches;
    this.#state = this.#stateNow();
  }

  get state(): StoreState {
    return this.#state;
  }

  write(batch: WriteBatch, options: { readonly sync: boolean }): Promise<void> {
    return this.#submit({ kind: 'write', batch, sync: options.sync });
  }

  deleteRange(family: Family, range: KeyRange): Promise<void> {
    return this.#submit({ kind: 'deleteRange', family, range });
  }

  get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    return this.#read(() =>
      keys.map((key) => {
        this.#assertSound(family, key);
        const value = this.#rows.get(family, key);
        return value && Buffer.from(value);
      }),
    );
  }

  scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    return this.#read(() =>
      this.#rows.scan(family, range, limit).map(({ key, value }) => {
        this.#assertSound(family, key);
        return { key, value: Buffer.from(value) };
      }),
    );
  }

  onStateChange(listener: (state: StoreState) => void): void {
    this.#listeners.push(listener);
  }

  size(): StoreSize {
    return { disk: this.#rows.bytes, memory: 0 };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A crashed store is already closed.
    if (this.#life !== 'crashed') await this.close();
  }

  /** Ends the process: calls in progress never settle. */
  die(): void {
    this.#life = 'crashed';
    this.#queue.length = 0;
  }

  /** Everything that is called from now on rejects with this error. */
  fail(cause: Error): void {
    this.#failure ??= cause;
    this.stateMayHaveChanged();
  }

  stateMayHaveChanged(): void {
    const before = this.#state;
    this.#state = this.#stateNow();
    if (this.#state.kind === before.kind || this.#life !== 'open') return;
    for (const listener of this.#listeners) listener(this.#state);
  }

  readonly #alive = () => this.#life !== 'crashed';

  #stateNow(): StoreState {
    if (this.#failure !== undefined) return { kind: 'failed', cause: this.#failure };
    return this.#disk.space === 'plenty' ? { kind: 'writable' } : { kind: 'full', freeBytes: 0 };
  }

  #submit(work: Pending['work']): Promise<void> {
    const unusable = this.#unusable() ?? this.#failure ?? this.#refusal;
    if (unusable !== undefined) return Promise.reject(unusable);
    const promise = new Promise<void>((resolve, reject) => void this.#queue.push({ work, resolve, reject }));
    this.#pumping ??= this.#pump();
    return promise;
  }

  async #pump(): Promise<void> {
    await Promise.resolve(); // all writes of one turn form one group
    while (this.#queue.length > 0) {
      const group = this.#takeGroup();
      try {
        if (!(await this.#commit(group))) return;
        for (const { resolve } of group) resolve();
      } catch (error) {
        this.#refuse([...group, ...this.#queue.splice(0)], error as Error);
      }
    }
    this.#pumping = undefined;
  }

  /** Takes the pending writes before the next range deletion, or one range deletion. */
  #takeGroup(): Pending[] {
    const end = this.#queue.findIndex(({ work }) => work.kind === 'deleteRange');
    return this.#queue.splice(0, end === -1 ? this.#queue.length : Math.max(end, 1));
  }

  #commit(group: readonly Pending[]): Promise<boolean> {
    const [first] = group;
    if (first?.work.kind === 'deleteRange') {
      const { family, range } = first.work;
      const deletes = () =>
        this.#rows.scan(family, range, NO_LIMIT).map(({ key }): RowChange => ({ family, key, value: undefined }));
      return this.#disk.commit('deleteRange', () => [deletes()], false, this.#alive);
    }
    const batches = group.flatMap(({ work }) => (work.kind === 'write' ? [work] : []));
    const changes = () => batches.map(({ batch }) => changesOf(batch));
    const sync = batches.some((work) => work.sync);
    return this.#disk.commit('write', changes, sync, this.#alive);
  }

  #refuse(refused: readonly Pending[], error: Error): void {
    if (error instanceof StoreFullError) {
      this.#refusal = error;
      void this.#endRefusal();
    } else {
      this.#failure = error;
      this.stateMayHaveChanged();
    }
    for (const { reject } of refused) reject(error);
  }

  /** Ends the refusal after every caller knows of it. A real store waits for its next turn; no virtual time passes here. */
  async #endRefusal(): Promise<void> {
    for (let hops = 0; hops < PROMISES_TO_CALLERS; hops++) await Promise.resolve();
    this.#refusal = undefined;
  }

  async #read<T>(readNow: () => T): Promise<T> {
    const unusable = this.#unusable();
    if (unusable !== undefined) throw unusable;
    await this.#disk.reading();
    // A read of a crashed process never settles.
    return this.#alive() ? readNow() : new Promise<T>(() => {});
  }

  #assertSound(family: Family, key: Key): void {
    if (this.#disk.isDamaged(family, key)) throw new StoreCorruptError('a row of the simulated disk is damaged');
  }

  #unusable(): Error | undefined {
    if (this.#life === 'crashed') return new SimCrashedError('the process of this store has crashed');
    if (this.#life === 'closed') return new StoreClosedError('the store is closed');
    return undefined;
  }

  async #close(): Promise<void> {
    if (this.#life === 'crashed') throw new SimCrashedError('the process of this store has crashed');
    this.#life = 'closed';
    await this.#pumping;
    await this.#disk.closed(this, this.#alive);
    if (!this.#alive()) await new Promise<never>(() => {});
  }
}
