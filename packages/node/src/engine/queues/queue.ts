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
import type { QueueRates } from './rates.ts';

/** What changed of a task and the store may not show yet. */
export class RecentChange implements BehindRows {
  readonly pid: Pid;
  /** Of the latest atom that changed it. */
  ticket: Ticket;
  /** Undefined when it is gone. */
  task: CachedTask | undefined;
  readonly earlier: TaskState[];
  /** Of `UnwrittenTasks`: whether its rows are still to be written, and the bytes of the payload it holds. */
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

  /** Its rows are on their way to the store. */
  wrote(): void {
    this.earlier.length = 0;
    if (this.task) this.earlier.push(this.task.state);
  }
}

const NONE: readonly never[] = [];

/** A string that was put together keeps its parts beside itself, which is much where there are 100,000. */
function inOnePiece(name: QueueName): string {
  const full = formatQueueName(name);
  return full === name.name ? full : Buffer.from(full).toString();
}

/** A read of the store that is under way; it shows the first so many of the changes that were applied to the queue. */
export interface Hold {
  readonly since: number;
}

/** What memory knows of one task; `unknown` means that the store must be asked. */
export type Knowledge =
  | { readonly kind: 'task'; readonly task: CachedTask }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown' };

const ABSENT: Knowledge = { kind: 'absent' };
const UNKNOWN: Knowledge = { kind: 'unknown' };

/**
 * One generation of a queue in memory: its ledger, what is cached of its tasks, and the changes that are on their way to
 * the store.
 *
 *  Q1  `recent` holds every task whose last change the store may not show yet, so memory and store together always give
 *      the present state.
 *  Q2  While somebody reads the store, no change leaves `recent` that was applied after the read began: the read may be
 *      joined with it afterwards, whatever was committed meanwhile. What was applied before, every read shows.
 * This stands in for the paper's locks (5.5): nobody waits for anybody, reads are corrected when they arrive.
 */
export class Queue implements CacheOwner {
  readonly partition: PartitionId;
  readonly ledger: QueueLedger;
  readonly fullName: string;
  rates: QueueRates | undefined;
  /** The running refill, shared by all who need it. */
  refilling: Promise<void> | undefined;
  /** The running search for hidden tasks that show. */
  expiring: Promise<void> | undefined;
  /** A delete or drop ended this generation. */
  dropped = false;
  /** When the last task left. */
  emptySince: Instant | undefined;
  #prefix: string | undefined;
  #cache: QueueCache | undefined;
  #recent: Map<Pid, RecentChange> | undefined;
  /** Reads under way, in the order in which they began; so the first one is the one that knows least. */
  #holds: Set<Hold> | undefined;
  /** Applied changes that are kept for the sake of reads, in the order in which they were applied. */
  #kept: { readonly at: number; readonly change: RecentChange; readonly ticket: Ticket }[] | undefined;
  /** How many changes were applied so far. */
  #applied = 0;

  constructor(partition: PartitionId, ledger: QueueLedger) {
    this.partition = partition;
    this.ledger = ledger;
    this.fullName = inOnePiece(ledger.name);
  }

  /** What the keys of its rows begin with; remembered until the last change that is to be written was. */
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

  /** The cache, made when first needed: an idle queue has none. */
  get warmCache(): QueueCache {
    this.#cache ??= new QueueCache(this.ledger.available === 0 ? undefined : this.ledger.readyFloor);
    return this.#cache;
  }

  dropCache(): void {
    this.raiseFloor();
    this.#cache = undefined;
  }

  /** Tells the ledger where the head is (L2). */
  raiseFloor(): void {
    const cache = this.#cache;
    if (!cache) return;
    const { largestPid } = this.ledger;
    const floor =
      cache.firstReady ?? cache.firstMissing ?? (largestPid === undefined ? undefined : pidAfter(largestPid));
    if (floor !== undefined) this.ledger.readyFloor = floor;
  }

  /** What is known of a task without asking the store. */
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

  /** Makes a committed change visible to everything in memory. `known` is what was in memory of the task before. */
  apply(ticket: Ticket, change: TaskChange, known: CachedTask | undefined): RecentChange {
    // Before the ledger counts the change: an empty queue's cache is complete.
    const cache = this.warmCache;
    this.ledger.apply(ticket, change);
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
    // Its row is written with the atom.
    if (change.kind === 'enqueue') recent.earlier.push(change.after);
    return recent;
  }

  /** As `apply`, of what memory has counted already: a task whose rows a crash may have left behind. */
  restore(pid: Pid, { ticket, earlier, now }: RecoveredTask): RecentChange {
    return this.#noteRecent(pid, ticket, now && { state: now, data: undefined }, earlier);
  }

  /** The store shows what a task was when that atom had changed it. */
  applied(change: RecentChange, ticket: Ticket): void {
    this.#applied++;
    if (!this.#holds) {
      this.#forgetRecent(change, ticket);
      return;
    }
    this.#kept ??= [];
    this.#kept.push({ at: this.#applied, change, ticket });
  }

  /** The latest change of a task, if the store may not show it yet. */
  recent(pid: Pid): RecentChange | undefined {
    return this.#recent?.get(pid);
  }

  get hasRecent(): boolean {
    return this.#recent !== undefined;
  }

  recentChanges(): Iterable<[Pid, RecentChange]> {
    return this.#recent ?? [];
  }

  /** Q2: keeps what is not applied yet, until the hold is released. */
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
