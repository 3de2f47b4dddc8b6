import { Deque } from '@js-sdsl/deque';
import { takeFirst } from '../domain/deques.ts';
import { writeTaskRows } from '../log/atom-rows.ts';
import type { WriteBatch } from '../ports/write-batch.ts';
import type { PendingChange } from './queue-changes.ts';

/** Limits of the tasks with stale rows: their number, and the payload bytes that they keep in memory. */
const MOST_TASKS = 8_192;
const MOST_BYTES = 8 * 1024 * 1024;

const NONE: readonly never[] = [];

interface PendingAtom {
  readonly number: number;
  /** The tasks whose payloads are written with it. */
  readonly payloads: PendingChange[];
}

interface RowsInWriting {
  /** `staleSince` of the first change. */
  readonly since: number | undefined;
  readonly changes: readonly PendingChange[];
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
  /** Atoms that are committed but not applied, in order. */
  readonly #atoms = new Deque<PendingAtom | undefined>();
  /** Tasks with stale rows, longest stale first. */
  readonly #stale = new Deque<PendingChange | undefined>();
  #staleBytes = 0;
  /** Tasks whose rows are to be written with the atom begun last. */
  #urgent: PendingChange[] = [];
  /** Rows that are being written, oldest first. */
  readonly #writing: RowsInWriting[] = [];

  /** The number of the last committed atom. */
  get last(): number {
    return this.#last;
  }

  /** Atoms up to this number are applied: what was written with them can be read. */
  get applied(): number {
    return (this.#atoms.front()?.number ?? this.#last + 1) - 1;
  }

  /** The store shows all changes of the atoms up to this number. */
  get shown(): number {
    const since = this.#writing.find(({ since }) => since !== undefined)?.since ?? this.#stale.front()?.staleSince;
    return since === undefined ? this.applied : Math.min(this.applied, since - 1);
  }

  /** Number of tasks with stale rows. */
  get stale(): number {
    return this.#stale.size();
  }

  /** Number of tasks with stale rows beyond the limits. */
  get excess(): number {
    const { stale } = this;
    const ofBytes = this.#staleBytes > MOST_BYTES ? Math.ceil(stale * (1 - MOST_BYTES / this.#staleBytes)) : 0;
    return Math.max(stale - MOST_TASKS, ofBytes);
  }

  /** True if `write` must be called before the turn ends. */
  get hasUrgent(): boolean {
    return this.#urgent.length > 0;
  }

  /** Begins the next atom. `note` its changes in the same turn. */
  begin(): void {
    this.#last++;
    this.#atoms.pushBack({ number: this.#last, payloads: [] });
  }

  /**
   * Notes a change of the atom begun last. `hasPayload`: the atom has a new payload for the task. `isUrgent`: the rows of the
   * task are to be written with the atom, unless they are stale already.
   */
  note(change: PendingChange, hasPayload: boolean, isUrgent: boolean): void {
    if (hasPayload) {
      change.payloadOf = this.#last;
      this.#atoms.back()?.payloads.push(change);
    }
    this.#keep(change, change.payloadOf === 0 ? (change.data?.byteLength ?? 0) : 0);
    if (change.staleSince !== 0) return;
    change.writes++;
    if (isUrgent) {
      this.#urgent.push(change);
      return;
    }
    change.staleSince = this.#last;
    this.#stale.pushBack(change);
  }

  /** Called when the next atoms are applied. */
  atomsApplied(count: number): void {
    for (let left = count; left > 0; left--) {
      const atom = takeFirst(this.#atoms);
      for (const change of atom?.payloads ?? []) if (change.payloadOf === atom?.number) this.#payloadApplied(change);
    }
  }

  /** The row of the payload can be read (Q3). */
  #payloadApplied(change: PendingChange): void {
    change.payloadOf = 0;
    if (!change.queue.isRead) change.data = undefined;
    else if (change.staleSince !== 0) this.#keep(change, change.data?.byteLength ?? 0);
  }

  #keep(change: PendingChange, bytes: number): void {
    this.#staleBytes += bytes - change.staleBytes;
    change.staleBytes = bytes;
  }

  /**
   * Writes the rows of the urgent tasks, and of the first tasks with stale rows, at most `most`. Returns a function to call when
   * they can be read.
   */
  write(rows: WriteBatch, most: number): () => void {
    const since = most > 0 ? this.#stale.front()?.staleSince : undefined;
    const changes = this.#urgent;
    this.#urgent = [];
    for (const change of changes) writeRowsOf(rows, change);
    for (let count = Math.min(most, this.stale); count > 0; count--) {
      const change = takeFirst(this.#stale);
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

function writeRowsOf(rows: WriteBatch, change: PendingChange): void {
  // The rows of an ended queue are deleted by range.
  if (change.queue.dropped) return;
  writeTaskRows(rows, change.queue.prefix, change.pid, change);
  change.earlier = change.now === undefined ? NONE : [change.now];
}

/** The store shows rows of the task. They are its last ones if no other write is to come. */
function wrote(change: PendingChange): void {
  change.writes--;
  if (change.writes === 0) change.queue.shown(change);
}
