import { RingBuffer } from '../domain/ring-buffer.ts';
import type { WriteBatch } from '../ports/write-batch.ts';
import type { Pending } from './queue-changes.ts';

/** Limits of the tasks with stale rows: their number, and the payload bytes that they keep in memory. */
const MOST_TASKS = 8_192;
const MOST_BYTES = 8 * 1024 * 1024;

interface RowsInWriting {
  /** `staleSince` of the first change. */
  readonly since: number | undefined;
  readonly changes: readonly Pending[];
}

/**
 * Everything that is committed but not shown by the store. Atoms are numbered from 1 in the order of their commits. Payloads, and
 * the rows of urgent tasks, are written with their atom. Rows of other tasks become stale: all changes of a task since its last
 * row are written as one, longest stale first. The commit log has every change, so a crash loses none. Until the store shows a
 * change, its queue has it (`QueueChanges`). Bench rows B4 and B6: one change of rows for a leased and completed task instead of
 * eight.
 */
export class PendingChanges {
  #last = 0;
  #applied = 0;
  /** The tasks whose payloads are written with atoms that are not applied, and the numbers of these atoms, in order. */
  readonly #payloads = new RingBuffer<Pending>();
  readonly #payloadAtoms = new RingBuffer<number>();
  /** Tasks with stale rows, longest stale first. */
  readonly #stale = new RingBuffer<Pending>();
  #staleBytes = 0;
  /** Tasks whose rows are to be written with their atoms. */
  #urgent: Pending[] = [];
  /** Rows that are being written, oldest first. */
  readonly #writing: RowsInWriting[] = [];

  /** The number of the last committed atom. */
  get last(): number {
    return this.#last;
  }

  /** Atoms up to this number are applied: what was written with them can be read. */
  get applied(): number {
    return this.#applied;
  }

  /** The store shows all changes of the atoms up to this number. */
  get shown(): number {
    const since = this.#writing.find(({ since }) => since !== undefined)?.since ?? this.#stale.first?.staleSince;
    return since === undefined ? this.applied : Math.min(this.applied, since - 1);
  }

  /** Number of tasks with stale rows. */
  get stale(): number {
    return this.#stale.size;
  }

  /** Number of tasks with stale rows beyond the limits. */
  get excess(): number {
    const { stale } = this;
    const ofBytes = this.#staleBytes > MOST_BYTES ? Math.ceil(stale * (1 - MOST_BYTES / this.#staleBytes)) : 0;
    return Math.max(stale - MOST_TASKS, ofBytes);
  }

  /** Begins the next atom. `note` its changes in the same turn. */
  begin(): void {
    this.#last++;
  }

  /**
   * Notes a change of the atom begun last. `hasPayload`: the atom has a new payload for the task. `isUrgent`: the rows of the
   * task are to be written with the atom, unless they are stale already.
   */
  note(change: Pending, hasPayload: boolean, isUrgent: boolean): void {
    if (hasPayload) {
      change.payloadOf = this.#last;
      this.#payloads.push(change);
      this.#payloadAtoms.push(this.#last);
    }
    this.#keep(change, change.payloadOf === 0 ? (change.data?.byteLength ?? 0) : 0);
    if (change.staleSince !== 0) return;
    change.writes++;
    if (isUrgent) {
      this.#urgent.push(change);
      return;
    }
    change.staleSince = this.#last;
    this.#stale.push(change);
  }

  /** Called when the next atoms are applied. */
  atomsApplied(count: number): void {
    this.#applied += count;
    for (let atom = this.#payloadAtoms.first; atom !== undefined; atom = this.#payloadAtoms.first) {
      if (atom > this.#applied) return;
      this.#payloadAtoms.shift();
      const change = this.#payloads.shift();
      // Otherwise a later atom has another payload.
      if (change?.payloadOf === atom) this.#payloadApplied(change);
    }
  }

  /** The row of the payload can be read (Q3). */
  #payloadApplied(change: Pending): void {
    change.payloadOf = 0;
    if (!change.queue.isRead) change.data = undefined;
    else if (change.staleSince !== 0) this.#keep(change, change.data?.byteLength ?? 0);
  }

  #keep(change: Pending, bytes: number): void {
    this.#staleBytes += bytes - change.staleBytes;
    change.staleBytes = bytes;
  }

  /**
   * Writes the rows of the urgent tasks, and of the first tasks with stale rows, at most `most`. Returns a function to call when
   * they can be read. Undefined: there are none.
   */
  write(rows: WriteBatch, most: number): (() => void) | undefined {
    if (this.#urgent.length === 0 && (most <= 0 || this.stale === 0)) return undefined;
    const since = most > 0 ? this.#stale.first?.staleSince : undefined;
    const changes = this.#urgent;
    this.#urgent = [];
    for (const change of changes) writeRowsOf(rows, change);
    for (let count = Math.min(most, this.stale); count > 0; count--) {
      const change = this.#stale.shift();
      if (change === undefined) break;
      this.#keep(change, 0);
      change.staleSince = 0;
      writeRowsOf(rows, change);
      changes.push(change);
    }
    this.#writing.push({ since, changes });
    return () => {
      for (const change of this.#writing.shift()?.changes ?? []) wrote(change);
    };
  }
}

function writeRowsOf(rows: WriteBatch, change: Pending): void {
  // The rows of an ended queue are deleted by range.
  if (!change.queue.dropped) change.writeTo(rows);
}

/** The store shows rows of the task. They are its last ones if no other write is to come. */
function wrote(change: Pending): void {
  change.writes--;
  if (change.writes === 0) change.queue.shown(change);
}
