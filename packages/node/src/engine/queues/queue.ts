import { formatQueueName, type QueueName } from '@taskmaster/proto';
import type { Instant, PartitionId, Pid, TaskState, Ticket } from '@taskmaster/server/domain';
import type { TaskChange } from '../../domain/atom.ts';
import { pidAfter, queuePrefix } from '../../domain/keys.ts';
import type { BehindRows } from '../../log/atom-rows.ts';
import type { QueueLedger } from '../../log/queue-ledger.ts';
import type { RecoveredTask } from '../../log/replay.ts';
import type { CachedTask } from './cache/places.ts';
import { QueueCache } from './cache/queue-cache.ts';
import type { CacheOwner } from './cache/task-cache.ts';
import type { GroupUsage } from './group-usage.ts';
import type { QueueRates } from './rates.ts';

/** The latest change of a task, while the store may not show it yet. */
export class RecentChange implements BehindRows {
  readonly pid: Pid;
  /** Ticket of the latest atom that changed the task. */
  ticket: Ticket;
  /** The task after the change; undefined if it was removed. */
  task: CachedTask | undefined;
  readonly earlier: TaskState[];
  /** Set by `UnwrittenTasks`: true while its rows are not written; and the payload bytes that it keeps in memory until then. */
  isUnwritten = false;
  unwrittenBytes = 0;

  constructor(pid: Pid, ticket: Ticket, task: CachedTask | undefined, earlier: readonly TaskState[]) {
    this.pid = pid;
    this.ticket = ticket;
    this.task = task;
    this.earlier = [...earlier];
  }

  get now(): TaskState | undefined {
    return this.task?.state;
  }

  /** Called when its rows have been put into a group. */
  wrote(): void {
    this.earlier.length = 0;
    if (this.task) this.earlier.push(this.task.state);
  }
}

const NONE: readonly never[] = [];

/** The full name as a flat string. A concatenated string also keeps its parts, which is much memory for 100,000 queues. */
function inOnePiece(name: QueueName): string {
  const full = formatQueueName(name);
  return full === name.name ? full : Buffer.from(full).toString();
}

/** A read of the store in progress. It shows at least the first `since` changes that were applied to the queue. */
export interface Hold {
  readonly since: number;
}

/** A task as far as memory knows it. `unknown`: the store must be read. */
export type Knowledge =
  | { readonly kind: 'task'; readonly task: CachedTask }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown' };

const ABSENT: Knowledge = { kind: 'absent' };
const UNKNOWN: Knowledge = { kind: 'unknown' };

/**
 * One generation of a queue in memory: its ledger, its cached tasks, and the changes that the store may not show yet.
 * A change is applied when the store shows it.
 *
 *  Q1  `recent` holds every task whose last change the store may not show yet, so memory and store together always give
 *      the present state.
 *  Q2  During a read of the store, a change that is applied after the read began stays in `recent`: it corrects the result
 *      of the read. The read itself shows all changes that were applied before it began.
 * This replaces the paper's locks (5.5): operations do not wait for each other, and reads are corrected when they arrive.
 */
export class Queue implements CacheOwner {
  readonly partition: PartitionId;
  readonly ledger: QueueLedger;
  readonly fullName: string;
  rates: QueueRates | undefined;
  /** The refill in progress, shared by all requests that need it. */
  refilling: Promise<void> | undefined;
  /** The search for due tasks in progress. */
  expiring: Promise<void> | undefined;
  /** True after this generation was ended, by a deletion or because the queue was empty. */
  dropped = false;
  /** When the last task was removed; undefined while there are tasks. */
  emptySince: Instant | undefined;
  /** Where its tasks are counted, while it is in the table of queues. */
  #usage: GroupUsage | undefined;
  #prefix: string | undefined;
  #cache: QueueCache | undefined;
  #recent: Map<Pid, RecentChange> | undefined;
  /** Reads in progress, oldest first. The oldest one shows the fewest changes. */
  #holds: Set<Hold> | undefined;
  /** Applied changes that reads in progress may still need (Q2), in the order in which they were applied. */
  #kept: { readonly at: number; readonly change: RecentChange; readonly ticket: Ticket }[] | undefined;
  /** Number of changes applied so far. */
  #applied = 0;

  constructor(partition: PartitionId, ledger: QueueLedger) {
    this.partition = partition;
    this.ledger = ledger;
    this.fullName = inOnePiece(ledger.name);
  }

  /** Prefix of the keys of its rows. Cached while the queue has recent changes. */
  get prefix(): string {
    this.#prefix ??= queuePrefix(this.partition, this.ledger.queueId);
    return this.#prefix;
  }

  get cache(): QueueCache | undefined {
    return this.#cache;
  }

  get evictable(): boolean {
    return this.refilling === undefined;
  }

  /** The cache, created on first use: an idle queue has none. */
  get warmCache(): QueueCache {
    this.#cache ??= new QueueCache(this.ledger.available === 0 ? undefined : this.ledger.readyFloor);
    return this.#cache;
  }

  dropCache(): void {
    this.raiseFloor();
    this.#cache = undefined;
  }

  /** Counts its tasks there from now on, and no longer where they were counted. Undefined: nowhere. */
  countIn(usage: GroupUsage | undefined): void {
    const { size, bytes } = this.ledger;
    if (this.#usage !== undefined) {
      this.#usage.tasks -= size;
      this.#usage.bytes -= bytes;
    }
    this.#usage = usage;
    if (usage === undefined) return;
    usage.tasks += size;
    usage.bytes += bytes;
  }

  /** Sets the ledger's floor to the head of the queue (L2). */
  raiseFloor(): void {
    const cache = this.#cache;
    if (!cache) return;
    const { largestPid } = this.ledger;
    const floor =
      cache.firstReady ?? cache.firstMissing ?? (largestPid === undefined ? undefined : pidAfter(largestPid));
    if (floor !== undefined) this.ledger.readyFloor = floor;
  }

  /** Looks a task up in memory, without a read of the store. */
  lookUp(pid: Pid): Knowledge {
    const recent = this.#recent?.get(pid);
    if (recent) return recent.task ? { kind: 'task', task: recent.task } : ABSENT;
    const { ledger } = this;
    if (ledger.largestPid === undefined || pid > ledger.largestPid || ledger.size === 0) return ABSENT;
    const cache = this.warmCache;
    const ready = cache.ready(pid);
    if (ready) return { kind: 'task', task: ready };
    const hidden = cache.hidden(pid);
    if (hidden) return { kind: 'task', task: { state: hidden, data: undefined } };
    const notReady = ledger.available === cache.readyCount || cache.knowsReadyUpTo(pid);
    const notHidden = ledger.hidden === cache.hiddenCount;
    return notReady && notHidden ? ABSENT : UNKNOWN;
  }

  /** Applies a committed change to everything in memory. `known`: the task before the change, as far as it was in memory. */
  apply(ticket: Ticket, change: TaskChange, known: CachedTask | undefined): RecentChange {
    // Create the cache before the ledger counts the change: only the cache of an empty queue starts complete.
    const cache = this.warmCache;
    const { size, bytes } = this.ledger;
    this.ledger.apply(ticket, change);
    if (this.#usage !== undefined) {
      this.#usage.tasks += this.ledger.size - size;
      this.#usage.bytes += this.ledger.bytes - bytes;
    }
    const after = change.kind === 'dequeue' ? undefined : change.after;
    const data = change.kind === 'dequeue' ? undefined : (change.data ?? known?.data);
    const task = after && { state: after, data };
    if (after?.visibility.kind === 'hidden') {
      cache.removeReady(change.pid);
      cache.putHidden(change.pid, after);
    } else if (task) {
      // A new task was never hidden.
      if (change.kind !== 'enqueue') cache.removeHidden(change.pid);
      cache.putReady(change.pid, task);
    } else {
      cache.removeReady(change.pid);
      cache.removeHidden(change.pid);
    }
    if (this.ledger.available === cache.readyCount) cache.extendTo(undefined);
    const recent = this.#noteRecent(change.pid, ticket, task, change.kind === 'enqueue' ? NONE : [change.before]);
    // The row of a new task is written with the atom.
    if (change.kind === 'enqueue') recent.earlier.push(change.after);
    return recent;
  }

  /** As `apply`, during recovery: a task that the ledger already counts, but whose rows may be stale after the crash. */
  restore(pid: Pid, { ticket, earlier, now }: RecoveredTask): RecentChange {
    return this.#noteRecent(pid, ticket, now && { state: now, data: undefined }, earlier);
  }

  /** Called when the store shows the task as the atom with this ticket left it. */
  applied(change: RecentChange, ticket: Ticket): void {
    this.#applied++;
    if (!this.#holds) {
      this.#forgetRecent(change, ticket);
      return;
    }
    this.#kept ??= [];
    this.#kept.push({ at: this.#applied, change, ticket });
  }

  /** The latest change of a task; undefined if the store shows it. */
  recent(pid: Pid): RecentChange | undefined {
    return this.#recent?.get(pid);
  }

  get hasRecent(): boolean {
    return this.#recent !== undefined;
  }

  recentChanges(): Iterable<[Pid, RecentChange]> {
    return this.#recent ?? [];
  }

  /** Keeps all changes that are not applied yet, until the hold is released (Q2). */
  hold(): Hold {
    const hold = { since: this.#applied };
    this.#holds ??= new Set();
    this.#holds.add(hold);
    return hold;
  }

  release(hold: Hold): void {
    this.#holds?.delete(hold);
    if (this.#holds?.size === 0) this.#holds = undefined;
    const [oldest] = this.#holds ?? [];
    const kept = this.#kept ?? [];
    let free = 0;
    for (const { at, change, ticket } of kept) {
      if (oldest && at > oldest.since) break;
      this.#forgetRecent(change, ticket);
      free++;
    }
    this.#kept = free < kept.length ? kept.slice(free) : undefined;
  }

  #noteRecent(pid: Pid, ticket: Ticket, task: CachedTask | undefined, earlier: readonly TaskState[]): RecentChange {
    this.#recent ??= new Map();
    const known = this.#recent.get(pid);
    if (known) {
      known.ticket = ticket;
      known.task = task;
      return known;
    }
    const recent = new RecentChange(pid, ticket, task, earlier);
    this.#recent.set(pid, recent);
    return recent;
  }

  #forgetRecent(change: RecentChange, applied: Ticket): void {
    if (change.ticket > applied || this.#recent?.get(change.pid) !== change) return;
    this.#recent.delete(change.pid);
    if (this.#recent.size > 0) return;
    this.#recent = undefined;
    this.#prefix = undefined;
  }
}
