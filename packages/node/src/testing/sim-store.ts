import type { Instant, Key } from '../domain/ids.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type Family,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  StoreClosed,
  StoreCorrupt,
  StoreFailed,
  StoreFull,
  StoreLocked,
  type StoreSize,
  type StoreState,
} from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';
import type { SeededRandom } from './seeded-random.ts';
import { changesOf, type RowChange, SimRows } from './sim-store-rows.ts';

/** A moment at which a crash leaves something else on the disk than it would have a moment before. */
export interface DurableStep {
  /** From 1, over the life of the disk. */
  readonly number: number;
  readonly kind: 'write' | 'sync' | 'deleteRange';
  readonly phase: 'before' | 'after';
}

/** `short`: the store says that it is full but takes writes from reserved space. `none`: writes are refused. */
export type SimSpace = 'plenty' | 'short' | 'none';

export interface SimDiskOptions {
  readonly random: SeededRandom;
  /** Needed when anything takes time. A clock that outlives the processes, such as a `VirtualTime`. */
  readonly clock?: Pick<Clock, 'now' | 'at'>;
  /** Default true. */
  readonly atomicBatches?: boolean;
  /** What a write, its fsync and a read take, in virtual ms. Default 0: they end without time passing. */
  readonly writeMs?: number;
  readonly syncMs?: number;
  readonly readMs?: number;
}

/** A call on a store whose process has crashed. */
export class SimCrashed extends Error {
  override readonly name = 'SimCrashed';
}

/**
 * A simulated disk, which outlives the stores opened on it: one at a time.
 *
 *     const disk = new SimDisk({ random: new SeededRandom(seed) });
 *     let store = disk.open();
 *     …
 *     disk.crash(); // power loss: unsynced writes are lost, all of them or some; promises of the old store never settle
 *     store = disk.open();
 */
export class SimDisk {
  readonly atomicBatches: boolean;
  /** Called at every durable step, before a crash set by `crashAt`; may call `crash` itself. */
  onStep: ((step: DurableStep) => void) | undefined;
  readonly random: SeededRandom;
  readonly #clock: Pick<Clock, 'now' | 'at'> | undefined;
  readonly #latencyMs: { readonly write: number; readonly sync: number; readonly read: number };
  readonly #rows = new SimRows();
  /** Changes that show but are not durable, in order, with what undoes each. */
  #unsynced: { readonly changes: readonly RowChange[]; readonly undo: readonly RowChange[] }[] = [];
  /** Changes handed to the disk that do not show yet, or never will because they failed. They may survive a crash. */
  #underWay: (readonly RowChange[])[] = [];
  readonly #damaged = new Set<string>();
  #store: SimStore | undefined;
  #space: SimSpace = 'plenty';
  #steps = 0;
  #crashAt = 0;
  readonly #faults = { write: 0, sync: 0 };
  #stallMs = 0;

  constructor(options: SimDiskOptions) {
    this.random = options.random;
    this.atomicBatches = options.atomicBatches ?? true;
    this.#clock = options.clock;
    this.#latencyMs = { write: options.writeMs ?? 0, sync: options.syncMs ?? 0, read: options.readMs ?? 0 };
  }

  /** Throws `StoreLocked` while another store is open. */
  open(): SimStore {
    if (this.#store !== undefined) throw new StoreLocked('the simulated disk is open already');
    this.#store = new SimStore(this, this.#rows);
    return this.#store;
  }

  /** Power loss: the open store's process ends at once, and of what was not synced any part may be lost. */
  crash(): void {
    this.#store?.die();
    this.#store = undefined;
    this.#crashAt = 0;
    this.#losePart();
  }

  /** Crashes at the durable step of that number; 0: not at all. */
  crashAt(step: number): void {
    this.#crashAt = step;
  }

  /** Durable steps so far. */
  get steps(): number {
    return this.#steps;
  }

  get space(): SimSpace {
    return this.#space;
  }

  set space(space: SimSpace) {
    this.#space = space;
    this.#store?.stateMayHaveChanged();
  }

  /** Makes the nth write from now fail, once. */
  failWrite(nth = 1): void {
    this.#faults.write = nth;
  }

  /** Makes the nth fsync from now fail, once. */
  failSync(nth = 1): void {
    this.#faults.sync = nth;
  }

  /** The next write takes that much longer, in virtual ms. */
  stallWrite(ms: number): void {
    this.#stallMs = ms;
  }

  /** Damages a row: reading it rejects with `StoreCorrupt` from now on. */
  corrupt(family: Family, key: Key): void {
    this.#damaged.add(`${family}:${key}`);
  }

  /** All rows of a family that show now, for checks. */
  rowsOf(family: Family): Row[] {
    return this.#rows.all(family);
  }

  // What follows is for the store opened on this disk.

  isDamaged(family: Family, key: Key): boolean {
    return this.#damaged.size > 0 && this.#damaged.has(`${family}:${key}`);
  }

  /** Lets a read take its time. */
  reading(): Promise<void> {
    return this.#takes(this.#latencyMs.read);
  }

  /**
   * Writes a group of batches, or the deletes of a range, and syncs them if asked. Resolves with false when the process
   * crashed meanwhile. Throws what the store is to reject with.
   */
  async commit(
    kind: 'write' | 'deleteRange',
    changesNow: () => RowChange[][],
    sync: boolean,
    alive: () => boolean,
  ): Promise<boolean> {
    if (!this.#step(kind, 'before', alive)) return false;
    await this.#takes(this.#latencyMs.write + this.#stallMs);
    this.#stallMs = 0;
    if (!alive()) return false;
    if (this.#space === 'none') throw new StoreFull('the simulated disk is full');
    const group = changesNow();
    this.#underWay = group;
    if (this.#fails('write')) throw new StoreFailed('the simulated disk failed to write');
    if (!this.#step(kind, 'after', alive)) return false;
    if (sync && !(await this.#sync(alive))) return false;
    for (const changes of group) {
      const undo = this.#rows.apply(changes);
      if (!sync) this.#unsynced.push({ changes, undo });
    }
    this.#underWay = [];
    return true;
  }

  async #sync(alive: () => boolean): Promise<boolean> {
    if (!this.#step('sync', 'before', alive)) return false;
    await this.#takes(this.#latencyMs.sync);
    if (!alive()) return false;
    if (this.#fails('sync')) throw new StoreFailed('the simulated disk failed to sync');
    this.#unsynced = [];
    // Durable but not shown yet: a crash in the step below keeps all of it.
    const durable = this.#underWay;
    this.#underWay = [];
    if (this.#step('sync', 'after', alive)) return true;
    for (const changes of durable) this.#rows.apply(changes);
    return false;
  }

  /** A store was closed in good order. */
  async closed(store: SimStore, alive: () => boolean): Promise<void> {
    if (store.state.kind === 'failed') this.#losePart();
    else if (this.#unsynced.length > 0 && !(await this.#sync(alive))) return;
    this.#store = undefined;
  }

  /** Returns whether the process is alive after the step. */
  #step(kind: DurableStep['kind'], phase: DurableStep['phase'], alive: () => boolean): boolean {
    const number = ++this.#steps;
    this.onStep?.({ number, kind, phase });
    if (number === this.#crashAt && alive()) this.crash();
    return alive();
  }

  #fails(kind: 'write' | 'sync'): boolean {
    if (this.#faults[kind] === 0) return false;
    this.#faults[kind]--;
    return this.#faults[kind] === 0;
  }

  #takes(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    const clock = this.#clock;
    if (clock === undefined) throw new TypeError('a disk that takes time needs a clock');
    return new Promise((resolve) => void clock.at((clock.now() + ms) as Instant, resolve));
  }

  /** Atomic batches survive as a prefix of their order; otherwise any rows of them do. */
  #losePart(): void {
    const atRisk = [...this.#unsynced.map(({ changes }) => changes), ...this.#underWay];
    for (const { undo } of this.#unsynced.reverse()) this.#rows.apply(undo);
    this.#unsynced = [];
    this.#underWay = [];
    if (atRisk.length === 0) return;
    const kept = this.atomicBatches
      ? atRisk.slice(0, this.random.int(atRisk.length + 1))
      : atRisk.map((changes) => changes.filter(() => this.random.chance(0.5)));
    for (const changes of kept) this.#rows.apply(changes);
  }
}

interface Pending {
  readonly work:
    | { readonly kind: 'write'; readonly batch: WriteBatch; readonly sync: boolean }
    | { readonly kind: 'deleteRange'; readonly family: Family; readonly range: KeyRange };
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const NO_LIMIT: ScanLimit = { rows: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };

/** A store on a simulated disk. Made by `SimDisk.open`. */
export class SimStore implements Store {
  readonly atomicBatches: boolean;
  readonly #disk: SimDisk;
  readonly #rows: SimRows;
  readonly #queue: Pending[] = [];
  readonly #listeners: ((state: StoreState) => void)[] = [];
  #life: 'open' | 'closed' | 'crashed' = 'open';
  #pumping: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #failure: Error | undefined;
  /** A refusal is on its way to the caller, who may still be adding to what was refused. */
  #refusal: StoreFull | undefined;
  #state: StoreState = { kind: 'writable' };

  constructor(disk: SimDisk, rows: SimRows) {
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
    // A scope that ends after its store crashed has nothing left to close.
    if (this.#life !== 'crashed') await this.close();
  }

  /** The process is gone: nothing under way ends any more. */
  die(): void {
    this.#life = 'crashed';
    this.#queue.length = 0;
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
    // The first handler of the first promise that was refused runs before any of the caller's: from then on it knows.
    promise.catch(() => {
      this.#refusal = undefined;
    });
    this.#pumping ??= this.#pump();
    return promise;
  }

  async #pump(): Promise<void> {
    await Promise.resolve(); // whatever is written in the same turn belongs to one group
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

  /** All that gathered up to a range delete, or one range delete. */
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
    if (error instanceof StoreFull) {
      this.#refusal = error;
    } else {
      this.#failure = error;
      this.stateMayHaveChanged();
    }
    for (const { reject } of refused) reject(error);
  }

  async #read<T>(readNow: () => T): Promise<T> {
    const unusable = this.#unusable();
    if (unusable !== undefined) throw unusable;
    await this.#disk.reading();
    // A read of a process that crashed never ends.
    return this.#alive() ? readNow() : new Promise<T>(() => {});
  }

  #assertSound(family: Family, key: Key): void {
    if (this.#disk.isDamaged(family, key)) throw new StoreCorrupt('a row of the simulated disk is damaged');
  }

  #unusable(): Error | undefined {
    if (this.#life === 'crashed') return new SimCrashed('the process of this store has crashed');
    if (this.#life === 'closed') return new StoreClosed('the store is closed');
    return undefined;
  }

  async #close(): Promise<void> {
    if (this.#life === 'crashed') throw new SimCrashed('the process of this store has crashed');
    this.#life = 'closed';
    await this.#pumping;
    await this.#disk.closed(this, this.#alive);
    if (!this.#alive()) await new Promise<never>(() => {});
  }
}
