import { ByteWriter } from '@taskmaster/server/domain';
import type { ApplyAtom } from '../domain/atom.ts';
import { writeAtom } from '../domain/atom-codec.ts';
import { logKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { writeRows } from './atom-rows.ts';

/**
 * When a group of atoms counts as durable, given the promise of the local write. Today the local disk decides; standbys
 * will be a second condition. Must reject when `local` does.
 */
export type DurabilityPolicy = (local: Promise<void>, atoms: readonly ApplyAtom[]) => Promise<void>;

export const localDisk: DurabilityPolicy = (local) => local;

export interface CommitLogOptions {
  readonly store: Store;
  /** Whether a group is fsynced before it counts as durable. Where batches are not atomic it always is. */
  readonly sync: boolean;
  readonly durability: DurabilityPolicy;
  readonly requestWindowMs: number;
  /** These atoms are durable, and the rows that were written with them can be read from the store. */
  readonly onApplied: (atoms: readonly ApplyAtom[]) => void;
  /**
   * Writes rows of tasks that atoms appended before have changed, of so many tasks at most, those first that have waited
   * longest. Returns what is to be called when they can be read.
   */
  readonly writeTasks: (rows: WriteBatch, most: number) => () => void;
  /** What those are told who wait for a group that will never be durable. */
  readonly told: (cause: Error) => Error;
  /** A write failed: nothing appended since the last durable group will ever be. Called once; the log is dead. */
  readonly onFailed: (cause: Error) => void;
}

export interface CommitLogFigures {
  readonly groups: number;
  readonly atoms: number;
  readonly bytes: number;
}

const entry = new ByteWriter();

/** A burst must not make every later group large. */
const MOST_EXPECTED_BYTES = 4 * 1024 * 1024;

class Group {
  readonly atoms: ApplyAtom[] = [];
  /** Log entries; on a store with atomic batches the rows too. */
  readonly entries: WriteBatch;
  readonly rows: WriteBatch;
  /** The rows hold a checkpoint, which must be on disk before it counts. */
  syncRows = false;
  /** Of tasks that earlier atoms changed. */
  readonly tasksWritten: (() => void)[] = [];
  readonly durable = Promise.withResolvers<void>();
  readonly applied = Promise.withResolvers<void>();

  constructor(atomicBatches: boolean, expectedBytes = 0) {
    this.entries = new WriteBatch(expectedBytes);
    this.rows = atomicBatches ? this.entries : new WriteBatch();
    // Not everybody waits for a group; whoever does still gets the rejection.
    for (const { promise } of [this.durable, this.applied]) promise.catch(() => {});
  }

  /** Nobody waits for the others to be durable. */
  get matters(): boolean {
    return this.atoms.length > 0 || this.syncRows;
  }

  get isEmpty(): boolean {
    return !this.matters && this.tasksWritten.length === 0;
  }
}

/**
 * Orders ApplyAtoms and commits them in groups (the paper, 5.3). What is written for an atom is its entry, the rows of new
 * tasks and the outcome of its request. The rows of tasks that were there come later: until the next checkpoint the entries
 * say the same, and a task that is leased and completed meanwhile needs no more than the deletion of its first row.
 *
 *  C1  Groups are with the store one at a time: an atom is durable only when all earlier ones are. What comes meanwhile
 *      makes the next group larger, and shares its fsync.
 *  C2  Where batches are not atomic, rows are written only after the log entries that can repeat them are durable.
 *  C3  Rows that `appendRows` takes are behind those of all tasks that earlier atoms changed.
 *  C4  After a failed write nothing later is written: the caller's memory is ahead of the disk and must be rebuilt.
 */
export class CommitLog {
  readonly #options: CommitLogOptions;
  /** With the store. */
  #writing: Group | undefined;
  #gathering: Group;
  #flushQueued = false;
  #failure: Error | undefined;
  #figures = { groups: 0, atoms: 0, bytes: 0 };

  constructor(options: CommitLogOptions) {
    this.#options = options;
    this.#gathering = new Group(options.store.atomicBatches);
  }

  get figures(): CommitLogFigures {
    return this.#figures;
  }

  /** Takes an atom into the group that is written next. Atoms of a partition come in the order of their tickets. */
  append(atom: ApplyAtom): void {
    if (this.#failure) throw this.#failure;
    const group = this.#gathering;
    const { atomicBatches } = this.#options.store;
    writeAtom(entry, atom, !atomicBatches);
    group.entries.putWritten(Family.log, logKey(atom.partition, atom.ticket), entry);
    writeRows(atom, group.rows, this.#options.requestWindowMs);
    group.atoms.push(atom);
    this.#queueFlush();
  }

  /** Writes rows of so many changed tasks at most; resolves when they can be read. Nothing else waits for them. */
  writeTasks(most: number): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const group = this.#gathering;
    group.tasksWritten.push(this.#options.writeTasks(group.rows, most));
    this.#queueFlush();
    return group.applied.promise;
  }

  /**
   * Takes rows that follow from the atoms appended so far; resolves when they are on disk, and everything that those atoms
   * changed can be read.
   */
  appendRows(fill: (rows: WriteBatch) => void): Promise<void> {
    const applied = this.writeTasks(Number.POSITIVE_INFINITY);
    if (this.#failure) return applied;
    const group = this.#gathering;
    fill(group.rows);
    group.syncRows = true;
    return applied;
  }

  /** Resolves when everything appended so far is durable; rejects when it never will be. */
  durable(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#options.told(this.#failure));
    const last = this.#gathering.matters ? this.#gathering : this.#writing;
    return last ? last.durable.promise : Promise.resolve();
  }

  /** Once per turn, so that what arrived together is committed together. */
  #queueFlush(): void {
    if (this.#flushQueued || this.#writing) return;
    this.#flushQueued = true;
    queueMicrotask(() => {
      this.#flushQueued = false;
      this.#flush();
    });
  }

  #flush(): void {
    const group = this.#gathering;
    if (this.#failure || this.#writing || group.isEmpty) return;
    // Under steady load the next group is about as large as this one.
    const expectedBytes = Math.min(MOST_EXPECTED_BYTES, group.entries.byteLength * 1.25);
    this.#gathering = new Group(this.#options.store.atomicBatches, expectedBytes);
    this.#writing = group;
    this.#figures.groups++;
    this.#figures.atoms += group.atoms.length;
    this.#figures.bytes += group.entries.byteLength;
    this.#write(group).then(
      () => this.#written(group),
      (error: unknown) => this.#fail(error instanceof Error ? error : new Error(String(error))),
    );
  }

  async #write(group: Group): Promise<void> {
    const { store, sync, durability } = this.#options;
    if (store.atomicBatches) {
      await durability(store.write(group.entries, { sync: (sync && group.matters) || group.syncRows }), group.atoms);
      return;
    }
    // C2: whether or not anybody waits for the fsync, the rows must.
    if (group.atoms.length > 0) await durability(store.write(group.entries, { sync: true }), group.atoms);
    group.durable.resolve();
    await store.write(group.rows, { sync: group.syncRows });
  }

  #written(group: Group): void {
    if (this.#failure) return;
    this.#writing = undefined;
    // Before anybody is answered, so that the disk is busy meanwhile.
    this.#flush();
    this.#options.onApplied(group.atoms);
    for (const written of group.tasksWritten) written();
    group.durable.resolve();
    group.applied.resolve();
  }

  #fail(cause: Error): void {
    if (this.#failure) return;
    this.#failure = cause;
    for (const group of [this.#writing, this.#gathering]) {
      group?.durable.reject(this.#options.told(cause));
      group?.applied.reject(cause);
    }
    this.#options.onFailed(cause);
  }
}
