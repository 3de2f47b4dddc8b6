import { formatQueueName, isReservedName, type QueueName, reservedQueues } from '@taskmaster/proto';
import type { LastChange, TaskChange } from '../domain/atom.ts';
import type { Instant, PartitionId, Pid, Ticket } from '../domain/ids.ts';
import { pidAfter, queuePrefix } from '../domain/keys.ts';
import type { KindFilter } from '../domain/kind-filter.ts';
import type { PauseRecord } from '../domain/queue-pauses.ts';
import { DEFAULT_SETTINGS, type QueueSettings } from '../domain/queue-settings.ts';
import { isInHead, kindOf, type TaskState } from '../domain/task.ts';
import type { BehindRows } from '../log/atom-rows.ts';
import type { QueueLedger } from '../log/queue-ledger.ts';
import {
  type ChangedQueue,
  type Pending,
  type PendingChange,
  type PendingLast,
  QueueChanges,
} from '../pending/queue-changes.ts';
import type { CachedTask } from './cache/places.ts';
import { QueueCache, type ReadyTask } from './cache/queue-cache.ts';
import type { CacheOwner } from './cache/task-cache.ts';
import type { GroupUsage } from './group-usage.ts';
import { KindClaims } from './kind-claims.ts';
import { KeyBacklogs } from './lanes/key-backlogs.ts';
import { Lanes } from './lanes/lanes.ts';
import type { LeaseLimit } from './lease-limit.ts';
import type { QueueRates } from './rates.ts';

const NONE: readonly never[] = [];

/** In a queue that flows, tasks wait less than this before they are leased, in ms: most are gone before the next checkpoint. */
const FLOW_WAIT_MS = 100;
/** A queue flows until no task of it was leased for so long, in ms. */
const FLOW_MS = 500;

/** The full name as a flat string. A concatenated string also keeps its parts, which is much memory for 100,000 queues. */
function inOnePiece(name: QueueName): string {
  const full = formatQueueName(name);
  return full === name.name ? full : Buffer.from(full).toString();
}

/** A task as far as memory knows it. `unknown`: the store must be read. */
export type Knowledge =
  | { readonly kind: 'task'; readonly task: CachedTask }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown' };

/** The last task with an order key. */
export interface KnownLast {
  /** Undefined: there is none. */
  readonly last: Pid | undefined;
}

const NO_LAST: KnownLast = { last: undefined };
const NO_INSTANT = 0 as Instant;

const ABSENT: Knowledge = { kind: 'absent' };
const UNKNOWN: Knowledge = { kind: 'unknown' };

/** True for the queue of a group whose tasks are its schedules. */
export const isSchedules = ({ isReserved, ledger }: Queue): boolean =>
  isReserved && ledger.name.name === reservedQueues.schedules;

/** One generation of a queue in memory: its ledger, its cached tasks, and its pending changes. */
export class Queue implements CacheOwner, ChangedQueue {
  readonly partition: PartitionId;
  readonly ledger: QueueLedger;
  readonly fullName: string;
  /** True if its tasks are records of the group. */
  readonly isReserved: boolean;
  /** What applies to its tasks. May change with any commit of its group. */
  settings: QueueSettings;
  /** Set while no task of it may be leased. May change with any commit of its group, and at the end of the pause. */
  pause: PauseRecord | undefined;
  /** The limits of how many tasks of it and of other queues are leased. May change with any commit of its group. */
  #limits: readonly LeaseLimit<Queue>[] | undefined;
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
  /** Until then a new task is expected to be leased soon. */
  #flowsUntil = 0;
  #prefix: string | undefined;
  #cache: QueueCache | undefined;
  #changes: QueueChanges | undefined;
  #lanes: Lanes | undefined;
  /** Set while its settings cap the tasks of a key, and an update has asked for their number. */
  keyBacklogs: KeyBacklogs | undefined;
  /** Who has asked for which kinds. Undefined: its tasks have none. */
  claims: KindClaims | undefined;
  /** Called when tasks in lanes may be leased that might not before. */
  onOpened: ((queue: Queue) => void) | undefined;

  constructor(partition: PartitionId, ledger: QueueLedger, settings = DEFAULT_SETTINGS, pause?: PauseRecord) {
    this.partition = partition;
    this.ledger = ledger;
    this.settings = settings;
    this.pause = pause;
    this.fullName = inOnePiece(ledger.name);
    this.isReserved = isReservedName(ledger.name.name);
  }

  /** Prefix of the keys of its rows. Cached while the queue has pending changes. */
  get prefix(): string {
    this.#prefix ??= queuePrefix(this.partition, this.ledger.queueId);
    return this.#prefix;
  }

  /** True if requests may lease tasks of it now. */
  get isOffering(): boolean {
    const { available, keyedReady } = this.ledger;
    if (available === 0 || this.isHeld) return false;
    return available > keyedReady || this.lanes?.isOpen === true;
  }

  /** Whether requests that accept these kinds may lease tasks of it now. */
  offers(kinds: KindFilter | undefined): boolean {
    if (!this.isOffering) return false;
    const { available, keyedReady } = this.ledger;
    if (kinds === undefined || (kinds.acceptsNone && available > keyedReady)) return true;
    return keyedReady > 0 && this.lanes?.offers(kinds) === true;
  }

  /** Its tasks with limit keys or kinds. Undefined: it has none. */
  get lanes(): Lanes | undefined {
    if (this.#lanes === undefined && this.ledger.keyed > 0) this.#lanes = new Lanes(this, false, NO_INSTANT);
    return this.#lanes;
  }

  /** The queue whose tasks in lanes must be read first: this one, or another one with a common limit. */
  get lanesToRead(): Queue {
    if (this.#lanes?.isLoaded !== true) return this;
    for (const { keys } of this.#limits ?? NONE) for (const queue of keys?.unknown ?? NONE) return queue;
    return this;
  }

  /** How many tasks of each key wait. They must be counted first if `isCounted` is false. */
  get warmKeyBacklogs(): KeyBacklogs {
    this.keyBacklogs ??= new KeyBacklogs(this.ledger.keyed === 0);
    return this.keyBacklogs;
  }

  plainHead(): Iterable<ReadyTask> {
    return this.warmCache.head();
  }

  get plainMissing(): Pid | undefined {
    return this.warmCache.firstMissing;
  }

  opened(): void {
    this.onOpened?.(this);
  }

  /** True while it is paused, or a limit of it is used up. */
  get isHeld(): boolean {
    return this.pause !== undefined || (this.#limits !== undefined && this.#isAtLimit);
  }

  /** Undefined: it has none. */
  get limits(): readonly LeaseLimit<Queue>[] | undefined {
    return this.#limits;
  }

  get #isAtLimit(): boolean {
    for (const { usedUpSince } of this.#limits ?? NONE) if (usedUpSince !== undefined) return true;
    return false;
  }

  /** Counts in these limits from now on, and no longer in those where it counted. */
  limitBy(limits: readonly LeaseLimit<Queue>[] | undefined): void {
    const before = this.#limits ?? NONE;
    this.#limits = limits;
    for (const limit of before) if (!limits?.includes(limit)) limit.forget(this);
    for (const limit of limits ?? NONE) if (!before.includes(limit)) limit.add(this);
    if (limits === undefined && this.dropped) this.#lanes?.end();
    else this.#lanes?.limited();
  }

  get cache(): QueueCache | undefined {
    return this.#cache;
  }

  get evictable(): boolean {
    return this.refilling === undefined;
  }

  /** The cache, created on first use: an idle queue has none. */
  get warmCache(): QueueCache {
    this.#cache ??= new QueueCache(this.ledger.plain === 0 ? undefined : this.ledger.readyFloor);
    return this.#cache;
  }

  dropCache(): void {
    this.raiseFloor();
    this.#cache = undefined;
  }

  /** Counts its tasks there from now on, and no longer where they were counted; of records only the bytes. Undefined: nowhere. */
  countIn(usage: GroupUsage | undefined): void {
    const { bytes } = this.ledger;
    const size = this.isReserved ? 0 : this.ledger.size;
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
    const pending = this.#changes?.get(pid);
    if (pending) {
      const { now, data } = pending;
      if (now === undefined) return ABSENT;
      // The cache may still have the payload.
      const cached = data === undefined && now.visibility.kind === 'available' ? this.#cache?.ready(pid) : undefined;
      return { kind: 'task', task: cached ?? { state: now, data } };
    }
    const { ledger } = this;
    if (ledger.largestPid === undefined || pid > ledger.largestPid || ledger.size === 0) return ABSENT;
    const cache = this.warmCache;
    const ready = cache.ready(pid);
    if (ready) return { kind: 'task', task: ready };
    const hidden = cache.hidden(pid);
    if (hidden) return { kind: 'task', task: { state: hidden, data: undefined } };
    const notReady = ledger.keyedReady === 0 && (ledger.available === cache.readyCount || cache.knowsReadyUpTo(pid));
    const notHidden = ledger.hidden === cache.hiddenCount;
    return notReady && notHidden ? ABSENT : UNKNOWN;
  }

  /** The last task with an order key, as far as memory knows it. Undefined: the store must be read. */
  lastInOrder(orderKey: string): KnownLast | undefined {
    return this.#changes?.last(orderKey) ?? (this.ledger.size === 0 ? NO_LAST : undefined);
  }

  /** Called for each task that is leased. */
  leased(now: Instant, waitedMs: number): void {
    this.#flowsUntil = waitedMs < FLOW_WAIT_MS ? now + FLOW_MS : 0;
  }

  /** True if a new task will probably be leased soon, as others were. */
  isFlowing(now: Instant): boolean {
    return now < this.#flowsUntil;
  }

  /** Applies a committed change to everything in memory. `known`: the task before the change, as far as it was in memory. */
  apply(ticket: Ticket, change: TaskChange, known: CachedTask | undefined, at = NO_INSTANT): PendingChange {
    // Create the cache before the ledger counts the change: only the cache of an empty queue starts complete.
    const cache = this.warmCache;
    const { size, bytes, keyed, leased, available, dueFloor } = this.ledger;
    this.ledger.apply(ticket, change);
    if (this.#usage !== undefined) {
      if (!this.isReserved) this.#usage.tasks += this.ledger.size - size;
      this.#usage.bytes += this.ledger.bytes - bytes;
    }
    if (this.#limits !== undefined) {
      const more = this.ledger.leased - leased;
      const turned = (available === 0) !== (this.ledger.available === 0);
      if (more !== 0 || turned || this.ledger.dueFloor < dueFloor)
        for (const limit of this.#limits) limit.note(this, more, turned);
    }
    this.keyBacklogs?.note(change);
    if (this.ledger.kinds !== undefined || this.claims !== undefined) this.#noteKinds(change, at);
    const after = change.kind === 'dequeue' ? undefined : change.after;
    const data = change.kind === 'dequeue' ? undefined : (change.data ?? known?.data);
    if (keyed > 0 || this.ledger.keyed > 0 || this.#lanes !== undefined) this.#noteKeyed(change, data, keyed, at);
    const task = after && { state: after, data };
    if (after?.visibility.kind === 'hidden') {
      cache.removeReady(change.pid);
      cache.putHidden(change.pid, after);
    } else if (task) {
      // A new task was never hidden.
      if (change.kind !== 'enqueue') cache.removeHidden(change.pid);
      if (isInHead(task.state)) cache.putReady(change.pid, task);
      else cache.removeReady(change.pid);
    } else {
      cache.removeReady(change.pid);
      cache.removeHidden(change.pid);
    }
    if (this.ledger.plain === cache.readyCount) cache.extendTo(undefined);
    const pending = this.#change(change.pid, change.kind === 'enqueue' ? undefined : change.before);
    pending.now = after;
    pending.data = data ?? (after && pending.data);
    return pending;
  }

  #noteKinds(change: TaskChange, at: Instant): void {
    const { kinds } = this.ledger;
    this.claims = kinds && (this.claims ?? new KindClaims(at));
    const kind = kindOf(change.kind === 'dequeue' ? change.before : change.after);
    if (kind === undefined) return;
    const counts = kinds?.get(kind);
    if (counts === undefined) this.claims?.ended(kind);
    else if (counts.available === 1) this.claims?.began(kind, at);
  }

  /** `before`: how many tasks there were in lanes. */
  #noteKeyed(change: TaskChange, data: Uint8Array | undefined, before: number, at: Instant): void {
    this.#lanes ??= new Lanes(this, before === 0, at);
    this.#lanes.note(change, data, at);
    if (this.ledger.keyed > 0 || this.#lanes.remembers) return;
    this.#lanes.end();
    this.#lanes = undefined;
  }

  /** As `apply`, during recovery: a task that the ledger already counts, but whose rows may be stale after the crash. */
  restore(pid: Pid, { earlier, others, now }: BehindRows): PendingChange {
    const pending = this.#change(pid, earlier);
    pending.others = [...others];
    pending.now = now;
    return pending;
  }

  /** Another task is the last one with an order key. */
  changeLast(change: LastChange): PendingLast {
    this.#changes ??= new QueueChanges();
    return this.#changes.changeLast(this, change);
  }

  /** As `changeLast`, during recovery. */
  restoreLast(orderKey: string, last: Pid | undefined): PendingLast {
    this.#changes ??= new QueueChanges();
    return this.#changes.restoreLast(this, orderKey, last);
  }

  shown(change: Pending): void {
    this.#changes?.shown(change);
    this.#forgetChanges();
  }

  /** The last change of a task; undefined if the store shows it. */
  pendingOf(pid: Pid): PendingChange | undefined {
    return this.#changes?.get(pid);
  }

  get pendingCount(): number {
    return this.#changes?.size ?? 0;
  }

  pendingChanges(): Iterable<PendingChange> {
    return this.#changes?.values() ?? NONE;
  }

  /** Whether the store shows all of its changes. */
  get isShown(): boolean {
    return this.#changes?.isShown ?? true;
  }

  /** True while a read of its rows is in progress. */
  get isRead(): boolean {
    return this.#changes?.isRead ?? false;
  }

  /** Begins a read of the store: changes stay pending from now on, until it is disposed of (Q2). */
  hold(): Disposable {
    this.#changes ??= new QueueChanges();
    const hold = this.#changes.hold();
    return {
      [Symbol.dispose]: () => {
        this.#changes?.release(hold);
        this.#forgetChanges();
      },
    };
  }

  #change(pid: Pid, earlier: TaskState | undefined): PendingChange {
    this.#changes ??= new QueueChanges();
    return this.#changes.change(this, pid, earlier);
  }

  #forgetChanges(): void {
    if (!this.#changes?.isEmpty) return;
    this.#changes = undefined;
    this.#prefix = undefined;
  }
}
