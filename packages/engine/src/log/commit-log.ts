import type { ApplyAtom } from '../domain/atom.ts';
import { writeAtom } from '../domain/atom-codec.ts';
import { ByteWriter } from '../domain/bytes.ts';
import { logKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { writeRows } from './atom-rows.ts';

/**
 * Resolves when a group of atoms counts as durable. `local` is the promise of the local write, today the only condition;
 * standbys will be a second one. Must reject if `local` does.
 */
export type DurabilityPolicy = (local: Promise<void>, atoms: readonly ApplyAtom[]) => Promise<void>;

export const localDisk: DurabilityPolicy = (local) => local;

export interface CommitLogOptions {
  readonly store: Store;
  /** True if a group counts as durable only after an fsync. Without atomic batches, groups are always fsynced. */
  readonly sync: boolean;
  readonly durability: DurabilityPolicy;
  readonly requestWindowMs: number;
  /** Called when the next `atoms` atoms are durable and the rows written with them can be read. */
  readonly onApplied: (atoms: number) => void;
  /**
   * Writes the rows of tasks that must be written with their atoms, and of at most `most` others that atoms have changed,
   * longest stale first. Returns a function to call when the rows can be read. Undefined: there are none.
   */
  readonly writeTasks: (rows: WriteBatch, most: number) => (() => void) | undefined;
  /** The error for callers that wait for a group which will never be durable. */
  readonly told: (cause: Error) => Error;
  /** Called once, after a failed write: atoms behind the last durable group are lost, and the log accepts no more. */
  readonly onFailed: (cause: Error) => void;
}

export interface CommitLogFigures {
  readonly groups: number;
  readonly atoms: number;
  readonly bytes: number;
}

const entry = new ByteWriter();

/** Limit of the expected size of a group, so that a burst does not make the buffers of all later groups large. */
const MOST_EXPECTED_BYTES = 4 * 1024 * 1024;

const nothingWritten = (): void => {};

class Group {
  readonly atoms: ApplyAtom[] = [];
  /** Log entries; with atomic batches also the rows. */
  readonly entries: WriteBatch;
  readonly rows: WriteBatch;
  /** True if the rows must be fsynced, because they are part of a checkpoint. */
  syncRows = false;
  /** Functions to call when the rows of tasks in this group can be read. */
  readonly tasksWritten: (() => void)[] = [];
  readonly durable = Promise.withResolvers<void>();
  readonly applied = Promise.withResolvers<void>();

  constructor(atomicBatches: boolean, expectedBytes = 0) {
    this.entries = new WriteBatch(expectedBytes);
    this.rows = atomicBatches ? this.entries : new WriteBatch();
    // No unhandled rejection if no caller waits for the group.
    for (const { promise } of [this.durable, this.applied]) promise.catch(() => {});
  }

  /** True if a caller may wait for this group to be durable. A group of task rows alone has no caller. */
  get matters(): boolean {
    return this.atoms.length > 0 || this.syncRows;
  }

  get isEmpty(): boolean {
    return !this.matters && this.tasksWritten.length === 0;
  }
}

/**
 * Orders ApplyAtoms and commits them in groups (the paper, 5.3). An atom is written as its log entry, its payloads and the
 * outcome of its request. The states of tasks follow with the next checkpoint, except those of new tasks that probably wait
 * longer. Until then the log has the changes, and a task that is leased and completed meanwhile needs no row of its state.
 *
 *  C1  The store writes one group at a time: an atom is durable only when all earlier ones are. Atoms that arrive during a
 *      write join the next group and share its fsync.
 *  C2  Without atomic batches, rows are written only after the log entries that can repeat them are durable.
 *  C3  Rows from `appendRows` are written behind the rows of all tasks that earlier atoms changed.
 *  C4  After a failed write nothing is written any more: the caller's memory is ahead of the disk and must be rebuilt.
 */
export class CommitLog {
  readonly #options: CommitLogOptions;
  /** The group that the store is writing. */
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

  /** Adds an atom to the next group. Append atoms of a partition in the order of their tickets. */
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

  /** Writes rows of at most `most` changed tasks. Resolves when they can be read. `durable` does not wait for them. */
  writeTasks(most: number): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const group = this.#gathering;
    const written = this.#options.writeTasks(group.rows, most);
    group.tasksWritten.push(written ?? nothingWritten);
    this.#queueFlush();
    return group.applied.promise;
  }

  /**
   * Writes rows behind the atoms appended so far. Resolves when they are on disk and all changes of these atoms can be read.
   */
  appendRows(fill: (rows: WriteBatch) => void): Promise<void> {
    const applied = this.writeTasks(Number.POSITIVE_INFINITY);
    if (this.#failure) return applied;
    const group = this.#gathering;
    fill(group.rows);
    group.syncRows = true;
    return applied;
  }

  /** Resolves when everything appended so far is durable. Rejects if it never will be. */
  durable(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#options.told(this.#failure));
    const last = this.#gathering.matters ? this.#gathering : this.#writing;
    return last ? last.durable.promise : Promise.resolve();
  }

  /** Flushes once per turn, so that atoms of one turn are committed together. */
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
    // Once for all atoms of the group.
    const written = this.#options.writeTasks(group.rows, 0);
    if (written !== undefined) group.tasksWritten.push(written);
    // Under steady load, the next group is about as large as this one.
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
    // C2: the rows must wait for the fsync, even if no caller does.
    if (group.atoms.length > 0) await durability(store.write(group.entries, { sync: true }), group.atoms);
    group.durable.resolve();
    await store.write(group.rows, { sync: group.syncRows });
  }

  #written(group: Group): void {
    if (this.#failure) return;
    this.#writing = undefined;
    // Start the next write before callers are answered, so that the disk works meanwhile.
    this.#flush();
    this.#options.onApplied(group.atoms.length);
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
