import { type LastChange, lastAfter } from '../domain/atom.ts';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type BehindRows, writeLast, writeTaskRows } from '../log/atom-rows.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

const NONE: readonly never[] = [];

/** A queue, as its pending changes see it. */
export interface ChangedQueue {
  /** Prefix of the keys of its rows. */
  readonly prefix: string;
  readonly dropped: boolean;
  /** True while a read of its rows is in progress (Q2). */
  readonly isRead: boolean;
  /** Called when the store shows the last change of the task. */
  shown(change: Pending): void;
}

/** What a commit has changed, until the store shows it. */
export abstract class Pending {
  readonly queue: ChangedQueue;
  /** The payload. Undefined only if it is empty or the store shows it (Q3), or there can be none. */
  data: Uint8Array | undefined;
  /** The number of the atom that wrote the payload, until it is applied; otherwise 0. */
  payloadOf = 0;
  /** How many writes of its rows are to come or in progress. The store shows the change when there is none. */
  writes = 0;
  /** The number of the atom that made its rows stale; 0 if they are not. */
  staleSince = 0;
  /** While its rows are stale: the payload bytes kept in memory, except those that go when their atom is applied. */
  staleBytes = 0;
  /** Set when the store shows it: how many changes of its queue the store has shown by then. */
  shownAs = 0;

  constructor(queue: ChangedQueue) {
    this.queue = queue;
  }

  /** Writes its rows as they should be now. */
  abstract writeTo(rows: WriteBatch): void;
}

/** The last change of a task. */
export class PendingChange extends Pending implements BehindRows {
  readonly pid: Pid;
  now: TaskState | undefined;
  /** As in `BehindRows`, behind the writes in progress. */
  earlier: TaskState | undefined;
  others: readonly TaskState[] = NONE;

  constructor(queue: ChangedQueue, pid: Pid, earlier: TaskState | undefined) {
    super(queue);
    this.pid = pid;
    this.earlier = earlier;
  }

  override writeTo(rows: WriteBatch): void {
    writeTaskRows(rows, this.queue.prefix, this.pid, this);
    this.earlier = this.now;
    this.others = NONE;
  }

  /** True if the store may show a row of it: it has one, or is about to delete it. */
  get mayHaveRow(): boolean {
    const writesToCome = this.staleSince === 0 ? 0 : 1;
    return this.earlier !== undefined || this.others.length > 0 || this.writes > writesToCome;
  }
}

/** The last change of which task is the last one with an order key. */
export class PendingLast extends Pending {
  readonly orderKey: string;
  last: Pid | undefined;
  #mayHaveRow: boolean;

  constructor(queue: ChangedQueue, orderKey: string, mayHaveRow: boolean) {
    super(queue);
    this.orderKey = orderKey;
    this.#mayHaveRow = mayHaveRow;
  }

  override writeTo(rows: WriteBatch): void {
    const hasOne = this.last !== undefined;
    if (hasOne || this.#mayHaveRow) writeLast(rows, this.queue.prefix, this.orderKey, this.last);
    this.#mayHaveRow = hasOne;
  }
}

/** A read of the store in progress. It shows at least the first `since` changes that the store has shown of the queue. */
interface Hold {
  readonly since: number;
}

/**
 * The pending changes of one queue.
 *
 *  Q1  They hold every task, and every order key, whose last change the store may not show yet, so memory and store together
 *      always give the present state.
 *  Q2  During a read of the store, a change that the store shows after the read began stays pending: it corrects the result of
 *      the read. The read itself shows all changes that the store showed before it began.
 *  Q3  A new payload stays in memory until its row can be read, and longer if it arrived during a read that may not show it.
 * This replaces the paper's locks (5.5): operations do not wait for each other, and reads are corrected when they arrive.
 */
export class QueueChanges {
  readonly #changes = new Map<Pid, PendingChange>();
  /** By order key. Undefined: none has changed. */
  #lasts: Map<string, PendingLast> | undefined;
  /** Reads in progress, oldest first. The oldest one shows the fewest changes. */
  readonly #holds = new Set<Hold>();
  /** Changes that reads in progress may still need (Q2), in the order in which the store showed them. */
  #kept: { readonly change: Pending; readonly as: number }[] = [];
  /** How many changes the store has shown. */
  #shown = 0;

  get isEmpty(): boolean {
    return this.isShown && this.#holds.size === 0;
  }

  /** True if the store shows all changes. */
  get isShown(): boolean {
    return this.#changes.size === 0 && this.#lasts === undefined;
  }

  /** True while a read is in progress. */
  get isRead(): boolean {
    return this.#holds.size > 0;
  }

  /** How many tasks there are. */
  get size(): number {
    return this.#changes.size;
  }

  get(pid: Pid): PendingChange | undefined {
    return this.#changes.get(pid);
  }

  values(): Iterable<PendingChange> {
    return this.#changes.values();
  }

  /** `earlier`: the state whose rows the store may have, if the task has no pending change yet. */
  change(queue: ChangedQueue, pid: Pid, earlier: TaskState | undefined): PendingChange {
    let change = this.#changes.get(pid);
    if (change === undefined) {
      change = new PendingChange(queue, pid, earlier);
      this.#changes.set(pid, change);
    }
    return change;
  }

  /** The last change of an order key. Undefined: the store shows it. */
  last(orderKey: string): PendingLast | undefined {
    return this.#lasts?.get(orderKey);
  }

  /** Another task is the last one with an order key. */
  changeLast(queue: ChangedQueue, change: LastChange): PendingLast {
    const { orderKey, pid, isNew } = change;
    const known = this.#lasts?.get(orderKey);
    // The first task with its key finds no row. Before each other new one there was another change.
    const pending = known ?? this.#addLast(queue, orderKey, !isNew);
    pending.last = lastAfter(change, known === undefined ? pid : known.last);
    return pending;
  }

  /** As `changeLast`, during recovery: the row may be stale after the crash. */
  restoreLast(queue: ChangedQueue, orderKey: string, last: Pid | undefined): PendingLast {
    const pending = this.#addLast(queue, orderKey, true);
    pending.last = last;
    return pending;
  }

  #addLast(queue: ChangedQueue, orderKey: string, mayHaveRow: boolean): PendingLast {
    const pending = new PendingLast(queue, orderKey, mayHaveRow);
    this.#lasts ??= new Map();
    this.#lasts.set(orderKey, pending);
    return pending;
  }

  shown(change: Pending): void {
    change.shownAs = ++this.#shown;
    if (this.#holds.size === 0) this.#forget(change);
    else this.#kept.push({ change, as: change.shownAs });
  }

  #forget(change: Pending): void {
    if (change instanceof PendingChange) this.#changes.delete(change.pid);
    else if (change instanceof PendingLast) {
      this.#lasts?.delete(change.orderKey);
      if (this.#lasts?.size === 0) this.#lasts = undefined;
    }
  }

  /** Begins a read of the store. */
  hold(): Hold {
    const hold = { since: this.#shown };
    this.#holds.add(hold);
    return hold;
  }

  release(hold: Hold): void {
    this.#holds.delete(hold);
    const [oldest] = this.#holds;
    let free = 0;
    for (const { change, as } of this.#kept) {
      if (oldest && as > oldest.since) break;
      // Otherwise it has changed again.
      if (change.writes === 0 && change.shownAs === as) this.#forget(change);
      free++;
    }
    if (free > 0) this.#kept = this.#kept.slice(free);
  }
}
