import type { Instant, Key } from '../domain/ids.ts';
import { MemoryRows, type RowChange } from '../memory/memory-rows.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type Family,
  familyNames,
  type Row,
  StoreFailedError,
  StoreFullError,
  StoreLockedError,
} from '../ports/store.ts';
import type { SeededRandom } from './seeded-random.ts';
import { type SimProcessDisk, SimStore } from './sim-store-process.ts';

/** A step that changes what would be on the disk after a crash. */
export interface DurableStep {
  /** Counts from 1 over the life of the disk. */
  readonly number: number;
  readonly kind: 'write' | 'sync' | 'deleteRange';
  readonly phase: 'before' | 'after';
}

/** `short`: the store reports a full disk but still accepts writes. `none`: writes are refused. */
export type SimSpace = 'plenty' | 'short' | 'none';

export interface SimDiskOptions {
  readonly random: SeededRandom;
  /** Required if a duration is set. It must outlive the processes, for example a `VirtualTime`. */
  readonly clock?: Pick<Clock, 'now' | 'at'>;
  /** See `Store.atomicBatches`. Default true. */
  readonly atomicBatches?: boolean;
  /** Duration of a write, of its fsync and of a read, in virtual ms. Default 0. */
  readonly writeMs?: number;
  readonly syncMs?: number;
  readonly readMs?: number;
}

/**
 * A simulated disk. Stores are opened on it one at a time; it outlives them.
 *
 *     const disk = new SimDisk({ random: new SeededRandom(seed) });
 *     let store = disk.open();
 *     …
 *     disk.crash(); // power loss: some or all unsynced writes are lost; promises of the old store never settle
 *     store = disk.open();
 */
export class SimDisk implements SimProcessDisk {
  readonly atomicBatches: boolean;
  /** Called at every durable step, before a crash that `crashAt` has set. It may call `crash`. */
  onStep: ((step: DurableStep) => void) | undefined;
  readonly random: SeededRandom;
  readonly #clock: Pick<Clock, 'now' | 'at'> | undefined;
  readonly #latencyMs: { readonly write: number; readonly sync: number; readonly read: number };
  readonly #rows = new MemoryRows();
  /** Changes that can be read but are not durable, in order, with the changes that undo them. */
  #unsynced: { readonly changes: readonly RowChange[]; readonly undo: readonly RowChange[] }[] = [];
  /** Changes that cannot be read yet, or never because they failed. They may survive a crash. */
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

  /** Throws `StoreLockedError` while another store is open. */
  open(): SimStore {
    if (this.#store !== undefined) throw new StoreLockedError('the simulated disk is open already');
    this.#store = new SimStore(this, this.#rows);
    return this.#store;
  }

  /** Power loss: the process of the open store ends at once. Any part of the unsynced writes may be lost. */
  crash(): void {
    this.#endStore();
    this.#losePart();
  }

  /** As SIGKILL: the process ends, but the system runs on. Unsynced writes stay until a `crash`, which may lose them. */
  kill(): void {
    this.#endStore();
    const kept = this.#partOf(this.#underWay);
    this.#underWay = [];
    for (const changes of kept) this.#unsynced.push({ changes, undo: this.#rows.apply(changes) });
  }

  #endStore(): void {
    this.#store?.die();
    this.#store = undefined;
    this.#crashAt = 0;
  }

  /** All rows of a disk without an open store, for `restore`. */
  copy(): readonly RowChange[] {
    if (this.#store !== undefined) throw new StoreLockedError('the simulated disk is open');
    return familyNames.flatMap((_, family) =>
      this.rowsOf(family as Family).map(({ key, value }) => ({ family: family as Family, key, value })),
    );
  }

  /** Replaces all rows of a disk without an open store by a copy. */
  restore(copy: readonly RowChange[]): void {
    const present = this.copy().map(({ family, key }) => ({ family, key, value: undefined }));
    this.#rows.apply([...present, ...copy]);
    this.#unsynced = [];
    this.#underWay = [];
  }

  /** Crashes at the durable step with this number. 0: does not crash. */
  crashAt(step: number): void {
    this.#crashAt = step;
  }

  /** Number of durable steps so far. */
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

  /** Makes the next write take `ms` longer, in virtual time. */
  stallWrite(ms: number): void {
    this.#stallMs = ms;
  }

  /** Damages a row: reading it rejects with `StoreCorruptError` from now on. */
  corrupt(family: Family, key: Key): void {
    this.#damaged.add(`${family}:${key}`);
  }

  /** All rows of a family that can be read now. */
  rowsOf(family: Family): Row[] {
    return this.#rows.all(family);
  }

  // The remaining members are for the open store.

  isDamaged(family: Family, key: Key): boolean {
    return this.#damaged.size > 0 && this.#damaged.has(`${family}:${key}`);
  }

  /** See `SimProcessDisk.reading`. */
  reading(): Promise<void> {
    return this.#takes(this.#latencyMs.read);
  }

  /** See `SimProcessDisk.commit`. */
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
    if (this.#space === 'none') throw new StoreFullError('the simulated disk is full');
    const group = changesNow();
    this.#underWay = group;
    if (this.#fails('write')) throw new StoreFailedError('the simulated disk failed to write');
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
    if (this.#fails('sync')) throw new StoreFailedError('the simulated disk failed to sync');
    this.#unsynced = [];
    // Durable but not readable yet: a crash in the step below keeps all of it.
    const durable = this.#underWay;
    this.#underWay = [];
    if (this.#step('sync', 'after', alive)) return true;
    for (const changes of durable) this.#rows.apply(changes);
    return false;
  }

  /** See `SimProcessDisk.closed`. */
  async closed(store: SimStore, alive: () => boolean): Promise<void> {
    if (store.state.kind === 'failed') this.#losePart();
    else if (this.#unsynced.length > 0 && !(await this.#sync(alive))) return;
    this.#store = undefined;
  }

  /** Counts a durable step, at which the disk may crash. Returns whether the process is alive afterwards. */
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

  /** Loses unsynced writes. A prefix of the atomic batches survives; of other batches any rows may survive. */
  #losePart(): void {
    const atRisk = [...this.#unsynced.map(({ changes }) => changes), ...this.#underWay];
    for (const { undo } of this.#unsynced.reverse()) this.#rows.apply(undo);
    this.#unsynced = [];
    this.#underWay = [];
    for (const changes of this.#partOf(atRisk)) this.#rows.apply(changes);
  }

  #partOf(atRisk: readonly (readonly RowChange[])[]): readonly (readonly RowChange[])[] {
    if (atRisk.length === 0) return [];
    return this.atomicBatches
      ? atRisk.slice(0, this.random.int(atRisk.length + 1))
      : atRisk.map((changes) => changes.filter(() => this.random.chance(0.5)));
  }
}
