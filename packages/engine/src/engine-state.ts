import { isDeepStrictEqual } from 'node:util';
import type { QueueName } from '@taskmaster/proto';
import type { Admission } from './admission.ts';
import type { EngineConfig } from './config.ts';
import { type ApplyAtom, lastChanges, type TaskChange } from './domain/atom.ts';
import { type BulkRunRecord, decodeBulkRun, type EndedBulkRun } from './domain/bulk-runs.ts';
import type { CallSignal } from './domain/call-signal.ts';
import type { EventPage, ReadEventsCommand } from './domain/events.ts';
import type { Instant, PartitionId, PartitionLife, QueueId, Ticket } from './domain/ids.ts';
import { namePattern } from './domain/name-pattern.ts';
import type { Refusal } from './domain/refusal.ts';
import { LONG_AGO } from './domain/task.ts';
import { EventLog } from './events/event-log.ts';
import { limitReached } from './events/events-in.ts';
import type { Holdings } from './holdings.ts';
import { LastAttempts } from './last-attempts.ts';
import type { CheckpointedPartition } from './log/checkpoint.ts';
import { CommitLog, localDisk } from './log/commit-log.ts';
import type { LogTail } from './log/log-tail.ts';
import { LogTails } from './log/log-tails.ts';
import { ticketBehindEarlierLives } from './log/partition-row.ts';
import { QueueLedger } from './log/queue-ledger.ts';
import type { Recovered, RecoveredPartition } from './log/replay.ts';
import { PendingChanges } from './pending/pending-changes.ts';
import { type PlannedAtom, type PlannedChange, stateAfter, stateBefore } from './planned-atom.ts';
import type { Clock } from './ports/clock.ts';
import type { Random } from './ports/random.ts';
import type { SharedHolders } from './ports/shared-holders.ts';
import { sleep } from './ports/sleep.ts';
import type { Store } from './ports/store.ts';
import { TaskCache } from './queues/cache/task-cache.ts';
import { type Counts, countChange } from './queues/counts.ts';
import { EmptyQueues } from './queues/empty-queues.ts';
import type { GroupLimitsOf } from './queues/group-usage.ts';
import { Groups } from './queues/groups.ts';
import { KindClaims } from './queues/kind-claims.ts';
import { NameMatching } from './queues/name-matching.ts';
import { OrderedQueues } from './queues/ordered-queues.ts';
import { isSchedules, Queue } from './queues/queue.ts';
import { QueueTable } from './queues/queue-table.ts';
import { LimitTable, type QueuesLimit } from './records/limit-table.ts';
import { patternOfPid } from './records/pattern-records.ts';
import { PauseTable } from './records/pause-table.ts';
import {
  bulkRunRecords,
  endRecords,
  keyRecords,
  limitRecords,
  pauseRecords,
  settingsRecords,
  signalRecords,
  subscriptionRecords,
  tokenRecords,
} from './records/record-store.ts';
import { type RecordsInMemory, RecordTable } from './records/record-table.ts';
import { SettingsTable } from './records/settings-table.ts';
import { RequestIds } from './requests/request-ids.ts';
import { refusalOf, writeRefusal } from './store-refusal.ts';
import { SubscriptionTable } from './topics/subscription-table.ts';

export interface EngineStateDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: EngineConfig;
  readonly counts: Counts;
  readonly admission: Admission;
  readonly holdings: Holdings;
  /** Undefined: this node alone uses the store. */
  readonly shared?: SharedHolders | undefined;
  readonly groupLimits: GroupLimitsOf;
  readonly onBulkRunEnd: (run: EndedBulkRun) => void;
  /** See `EngineDeps`. */
  readonly tellsAll: boolean;
  /** Called after a failed write: this state is ahead of the disk and cannot be used any more. */
  readonly onFailed: (cause: Error) => void;
  /** Called after each commit, and after a partition was added. */
  readonly onChanged: () => void;
}

/** A deleted queue whose keys may be left. */
export interface DeletedQueue {
  readonly group: string;
  readonly queueId: QueueId;
}

const NONE: readonly never[] = [];

/** Changed tasks whose rows `writeTasks` adds to one group. */
const TASKS_PER_GROUP = 512;

/** Receives the events of queues. Implemented by `LeaseRequests`. */
export interface QueueListener {
  /** The queue is found by its name from now on. */
  added(queue: Queue): void;
  removed(queue: Queue): void;
  /** A limit allows leases again. */
  freed(limit: QueuesLimit): void;
  /** A limit that is used up gets its next token then. */
  refill(at: Instant): void;
  /** An atom made tasks available. */
  available(queue: Queue): void;
  /** Tasks of these queues may be leased again. */
  opened(queues: readonly Queue[]): void;
  /** An atom hid tasks. */
  hidden(queue: Queue): void;
  /** A refill or a search for due tasks has ended, with an error if it failed. Any operation may have started it. */
  read(queue: Queue, error: unknown): void;
}

/** Receives the atoms in the turns of their commits. Implemented by `TaskWaits`. */
export interface CommitWatcher {
  committed(plan: PlannedAtom): void;
}

interface Partition {
  readonly id: PartitionId;
  lastTicket: Ticket;
  nextQueueId: QueueId;
  life: PartitionLife;
  /** As recovery or a transfer has found it. Undefined: unknown, or this node has committed since. */
  lastEpoch: number | undefined;
  /** Log entries up to this one are deleted, or about to be. */
  trimmedTicket: Ticket;
  /** Atoms up to this one survive a power loss. 0 until this process has written a checkpoint. */
  durableTicket: Ticket;
  readonly queues: Set<Queue>;
  /** Queues that changed since the last checkpoint. */
  readonly changed: Set<Queue>;
}

const NO_TICKET = 0 as Ticket;

const newPartition = (id: PartitionId): Partition => ({
  id,
  lastTicket: NO_TICKET,
  nextQueueId: 1 as QueueId,
  life: 0,
  lastEpoch: 0,
  trimmedTicket: NO_TICKET,
  durableTicket: NO_TICKET,
  changed: new Set(),
  queues: new Set(),
});

/**
 * The state of an engine in memory: queues, cache, tickets. Recovery builds it from the store. It is ahead of the disk by the
 * atoms that are being committed, so after a failed write it is discarded and rebuilt.
 */
export class EngineState {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: EngineConfig;
  readonly counts: Counts;
  readonly admission: Admission;
  readonly holdings: Holdings;
  readonly groupLimits: GroupLimitsOf;
  readonly onBulkRunEnd: (run: EndedBulkRun) => void;
  readonly groups: Groups;
  readonly table = new QueueTable();
  readonly names: NameMatching;
  /** Queues with the records of ended tasks, and with signals that came early. */
  readonly records = new Set<Queue>();
  /** Queues that have hidden tasks, but for the records of groups: reads end none of these. */
  readonly hiding = new Set<Queue>();
  /** Queues of keys, loaded and not yet searched for those of queues that were deleted before. */
  readonly adoptedKeys = new Set<Queue>();
  /** Queues that were deleted. Their keys, and the records of children among them, may be left. */
  readonly deleted = new Set<DeletedQueue>();
  /** Queues of schedules. */
  readonly schedules = new OrderedQueues();
  readonly lastAttempts = new LastAttempts();
  readonly settings = new SettingsTable();
  readonly pauses = new PauseTable();
  readonly limits: LimitTable;
  readonly bulkRuns = new RecordTable<BulkRunRecord>(decodeBulkRun);
  readonly subscriptions = new SubscriptionTable();
  /** By the name of the reserved queue. */
  readonly #records: ReadonlyMap<string, RecordsInMemory>;
  readonly cache: TaskCache;
  readonly requests: RequestIds;
  readonly log: CommitLog;
  /** What has happened in groups that have readers. */
  readonly events: EventLog;
  watcher: CommitWatcher | undefined;
  listener: QueueListener = {
    added: () => {},
    removed: () => {},
    freed: () => {},
    refill: () => {},
    available: () => {},
    opened: () => {},
    hidden: () => {},
    read: () => {},
  };
  readonly #partitions = new Map<PartitionId, Partition>();
  /** Partitions with new tickets since the last checkpoint, but without changes of queues that still exist. */
  readonly #movedOn = new Set<Partition>();
  readonly #empty = new EmptyQueues();
  readonly #pending = new PendingChanges();
  readonly #tails = new LogTails();
  /** Queues whose pauses have ended in this turn, or of which a key may be leased again. */
  readonly #resumed = new Set<Queue>();
  readonly #onChanged: () => void;
  readonly #shared: SharedHolders | undefined;
  #failure: Error | undefined;

  constructor(deps: EngineStateDeps, recovered: Recovered) {
    this.store = deps.store;
    this.clock = deps.clock;
    this.random = deps.random;
    this.config = deps.config;
    this.counts = deps.counts;
    this.admission = deps.admission;
    this.holdings = deps.holdings;
    this.groupLimits = deps.groupLimits;
    this.#shared = deps.shared;
    this.onBulkRunEnd = deps.onBulkRunEnd;
    this.#onChanged = deps.onChanged;
    const { clock } = deps;
    this.limits = new LimitTable(clock, (at) => this.listener.refill(at));
    this.#records = new Map<string, RecordsInMemory>([
      [settingsRecords.name, this.settings.records],
      [pauseRecords.name, this.pauses],
      [limitRecords.name, this.limits],
      [tokenRecords.name, this.limits.tokens],
      [bulkRunRecords.name, this.bulkRuns],
      [subscriptionRecords.name, this.subscriptions],
    ]);
    this.names = new NameMatching({ clock, pause: (ms) => sleep(clock, ms) });
    this.groups = new Groups(deps.config.partitions);
    this.cache = new TaskCache(deps.config.cacheBytes);
    this.requests = new RequestIds(deps.store, deps.config, this.#pending, deps.clock.now());
    const { maxEventBytes: maxBytes, maxWaiters: maxReaders } = deps.config;
    this.events = new EventLog({ clock, maxBytes, maxReaders, tellsAll: deps.tellsAll });
    this.log = new CommitLog({
      store: deps.store,
      sync: deps.config.durability.kind === 'synced',
      durability: localDisk,
      requestWindowMs: deps.config.requestIdWindowMs,
      onApplied: (atoms) => {
        this.#pending.atomsApplied(atoms);
        this.events.applied(atoms);
        this.#tails.shown(this.#pending.shown);
      },
      writeTasks: (rows, most) => {
        const written = this.#pending.write(rows, most);
        if (written === undefined) return undefined;
        return () => {
          written();
          this.#tails.shown(this.#pending.shown);
        };
      },
      told: writeRefusal,
      onFailed: (cause) => {
        this.#failure = cause;
        deps.onFailed(cause);
      },
    });
    for (const [id, partition] of recovered.partitions) this.adopt(id, partition);
  }

  /** Whether keys of deleted queues may be left. */
  get mayHaveDeleted(): boolean {
    return this.deleted.size + this.adoptedKeys.size > 0;
  }

  /** The error that made this state unusable; undefined while it is usable. */
  get failed(): Refusal | undefined {
    return this.#failure && refusalOf(this.#failure);
  }

  /** Throws a `Refusal` if a write has failed, because this state is then ahead of the disk. */
  assertCurrent(): void {
    if (this.#failure) throw refusalOf(this.#failure);
  }

  /**
   * Resolves when everything committed so far is durable: replies wait for this. With a shared store, also when this node knows
   * that it still holds what it answers about. Rejects with a `Refusal`.
   */
  durable(): Promise<void> {
    const durable = this.log.durable();
    const confirmed = this.#shared?.confirm();
    if (confirmed === undefined) return durable;
    const both = Promise.all([durable, confirmed]).then(() => {});
    // No unhandled rejection if no caller waits for it.
    both.catch(() => {});
    return both;
  }

  partitionOf(group: string): PartitionId {
    return this.groups.get(group).partition;
  }

  /** The ticket that the next atom of this partition will have. */
  nextTicket(partition: PartitionId): Ticket {
    return (this.#partition(partition).lastTicket + 1) as Ticket;
  }

  /** A new queue. It exists after an atom that creates it is committed. */
  draftQueue(name: QueueName, drafts: number): Queue {
    const id = this.partitionOf(name.group);
    const queueId = (this.#partition(id).nextQueueId + drafts) as QueueId;
    return new Queue(
      id,
      new QueueLedger(queueId, name),
      this.settings.of(name),
      this.pauses.of(name, this.clock.now()),
    );
  }

  /**
   * Ends the pauses that are over at this instant, and frees the limits that have got tokens. It costs two comparisons when there
   * are none.
   */
  endHolds(now: Instant): void {
    for (const ended of this.pauses.takeEnded(now)) {
      for (const queue of this.table.ofGroup(ended.group)) {
        // Others that match have ended, too: a queue has the one that ends last.
        if (queue.pause !== ended) continue;
        queue.pause = undefined;
        this.#resumed.add(queue);
      }
    }
    if (now >= this.limits.refillsAt) this.limits.refill(now);
    if (this.limits.hasFreed) this.#announceFreed();
    if (this.#resumed.size > 0) this.#announceResumed();
  }

  /** `endHolds` does nothing before this instant. */
  get holdsEndAt(): Instant {
    if (this.limits.hasFreed || this.#resumed.size > 0) return LONG_AGO;
    return Math.min(this.pauses.earliest, this.limits.refillsAt) as Instant;
  }

  /** The last and the last durable ticket, the next queue id and the life of a partition. */
  ticketsOf(id: PartitionId): {
    readonly lastTicket: Ticket;
    readonly durableTicket: Ticket;
    readonly nextQueueId: QueueId;
    readonly life: PartitionLife;
  } {
    return this.#partition(id);
  }

  /** The last atom was committed at this epoch, or at an earlier one. Undefined without a cluster. */
  lastEpochOf(id: PartitionId): number | undefined {
    return this.#partition(id).lastEpoch ?? this.holdings.get(id)?.epoch;
  }

  /** The last ticket of each partition. */
  lastTickets(): ReadonlyMap<PartitionId, Ticket> {
    return new Map([...this.#partitions.values()].map(({ id, lastTicket }) => [id, lastTicket]));
  }

  /** Call this when all atoms up to these tickets are synced. */
  synced(tickets: ReadonlyMap<PartitionId, Ticket>): void {
    for (const [id, ticket] of tickets) {
      const partition = this.#partitions.get(id);
      if (partition && partition.durableTicket < ticket) partition.durableTicket = ticket;
    }
  }

  queuesOf(id: PartitionId): ReadonlySet<Queue> {
    return this.#partition(id).queues;
  }

  /** Follows the log of a partition: each atom that is committed from now on is added when the store shows all of it. */
  followLog(id: PartitionId, maxBacklogBytes?: number): LogTail {
    this.events.nameAll(id);
    return this.#tails.follow(id, this.ticketsOf(id).lastTicket, maxBacklogBytes);
  }

  unfollowLog(tail: LogTail): void {
    this.#tails.unfollow(tail);
  }

  /** Adds a partition that recovery or a transfer has loaded. */
  adopt(id: PartitionId, recovered: RecoveredPartition): void {
    const { lastTicket, nextQueueId, life, lastEpoch, trimmedTicket } = recovered;
    const { ledgers, changed, behind, lasts, records, eventful } = recovered;
    const partition: Partition = { ...newPartition(id), lastTicket, nextQueueId, life, lastEpoch, trimmedTicket };
    this.#partitions.set(id, partition);
    this.events.adopt({ id, life, lastTicket }, eventful);
    const queues = [...ledgers.values()].map((ledger) => new Queue(id, ledger));
    for (const queue of queues) {
      const rows = records.get(queue.ledger.queueId);
      if (rows !== undefined) this.#records.get(queue.ledger.name.name)?.adopt(queue, rows);
    }
    for (const { ledger } of queues) if (tokenRecords.has(ledger.name)) this.limits.restore(ledger.name.group);
    for (const queue of queues) {
      const { ledger } = queue;
      queue.settings = this.settings.of(ledger.name);
      queue.pause = this.pauses.of(ledger.name, this.clock.now());
      queue.claims = ledger.kinds && new KindClaims(this.clock.now());
      this.#noteCounts(queue, this.clock.now());
      this.#add(partition, queue);
      if (keyRecords.has(ledger.name)) this.adoptedKeys.add(queue);
      this.lastAttempts.adopt(queue, lastTicket, this.clock.now());
      if (changed.has(ledger)) partition.changed.add(queue);
      for (const [pid, task] of behind.get(ledger.queueId) ?? [])
        this.#pending.note(queue.restore(pid, task), false, false);
      for (const [orderKey, last] of lasts.get(ledger.queueId) ?? [])
        this.#pending.note(queue.restoreLast(orderKey, last), false, false);
    }
    this.#onChanged();
  }

  /**
   * Begins a new life of a partition that does not change now: what another node may have done with it is lost. So its tickets
   * begin behind all that the node may have given, once a checkpoint has made that durable.
   */
  beginAnew(id: PartitionId): void {
    const partition = this.#partition(id);
    const now = this.clock.now();
    partition.life = now;
    partition.lastTicket = Math.max(partition.lastTicket, ticketBehindEarlierLives(now)) as Ticket;
    partition.lastEpoch = undefined;
    this.#movedOn.add(partition);
    this.events.abandon(id);
  }

  /** Forgets a partition without operations in progress, because another node holds it. */
  abandon(id: PartitionId): void {
    const partition = this.#partition(id);
    for (const queue of [...partition.queues]) this.#drop(partition, queue);
    this.#movedOn.delete(partition);
    this.#partitions.delete(id);
    this.events.abandon(id);
  }

  /** Forgets partitions that were given up during recovery. */
  abandonOthers(): void {
    for (const id of this.#partitions.keys()) if (!this.holdings.holds(id)) this.abandon(id);
  }

  /**
   * Commits an atom. Later operations see it at once; callers are answered when `durable()` resolves. If this throws, nothing
   * has changed. It may throw even if the gate was open before in this turn, because the process may have been paused since.
   */
  commit(plan: PlannedAtom): Ticket {
    this.assertCurrent();
    // Operations check the gate in the same turn, but a turn can take long.
    if (!this.holdings.canCommit(plan.partition)) throw this.holdings.refusal(plan.partition);
    const partition = this.#partition(plan.partition);
    const ticket = (partition.lastTicket + 1) as Ticket;
    const atom = atomOf(plan, ticket, this.events.eventsOf(plan, partition));
    this.log.append(atom);
    this.#pending.begin();
    // After `append`, which may throw: a remembered request is answered as done.
    if (plan.request) this.requests.remember(plan.request.id, plan.at, plan.request.outcome);
    partition.lastTicket = ticket;
    partition.lastEpoch = undefined;
    this.events.committed(atom);
    for (const queue of plan.created ?? NONE) {
      partition.nextQueueId = Math.max(partition.nextQueueId, queue.ledger.queueId + 1) as QueueId;
      this.#add(partition, queue);
    }
    for (const planned of plan.changes) {
      const { queue, change, known } = planned;
      const hasPayload = change.kind !== 'dequeue' && change.data !== undefined;
      // A row of a state that will soon be gone is not worth its writing, nor memory that of one that stays. Bench row B5.
      // Records of tokens change again and again.
      const isUrgent = change.kind === 'enqueue' && !queue.isFlowing(plan.at) && !tokenRecords.has(queue.ledger.name);
      this.#pending.note(queue.apply(ticket, change, known, plan.at), hasPayload, isUrgent);
      const lasts = lastChanges(change);
      // Most tasks are in no order, and an iterator would be made for each (bench row B3).
      if (lasts.length > 0) for (const last of lasts) this.#pending.note(queue.changeLast(last), false, isUrgent);
      this.lastAttempts.changed(queue, stateBefore(change), stateAfter(change));
      countChange(this.counts, planned, plan.at);
      if (queue.isReserved) this.#recordChanged(queue, change, ticket, plan.at);
    }
    for (const { queue, reap } of plan.dropped ?? NONE) {
      const { name, queueId } = queue.ledger;
      if (reap && this.table.get(keyRecords.of(name.group)) !== undefined) {
        this.deleted.add({ group: name.group, queueId });
      }
      this.#drop(partition, queue);
    }
    this.#tails.committed(atom, this.#pending.last);
    const { excess } = this.#pending;
    if (excess > 0) void this.log.writeTasks(excess);
    let noted: Queue | undefined;
    for (const { queue } of plan.changes) {
      if (queue === noted) continue;
      noted = queue;
      this.#noteChanged(partition, queue, plan.at);
    }
    this.watcher?.committed(plan);
    // First, because the requests that wait for other queues may have come before those that wait for the queues of this atom.
    if (this.limits.hasFreed) this.#announceFreed();
    this.#announce(plan.changes);
    if (this.#resumed.size > 0) this.#announceResumed();
    if (this.limits.hasReached) this.#tellReached(plan.at);
    this.#onChanged();
    return ticket;
  }

  /** Tells readers of limits that allow no further lease. Memory knows it only when the leases are committed. */
  #tellReached(at: Instant): void {
    const partitions = new Set<PartitionId>();
    for (const reached of this.limits.takeReached()) {
      const { limit, key } = reached;
      if (key !== undefined && !limit.keys?.holds(key)) continue;
      const { group } = limit.record;
      const id = this.partitionOf(group);
      if (this.events.tell(id, group, limitReached(reached, at))) partitions.add(id);
    }
    for (const id of partitions) this.markReaders(id);
  }

  /** As `EventLog.read`. Undefined: the partition was given up meanwhile. */
  readEvents(command: ReadEventsCommand, signal: CallSignal | undefined): Promise<EventPage | undefined> {
    const id = this.partitionOf(command.group);
    const { lastTicket, life } = this.#partition(id);
    const partition = { id, life, lastTicket, mark: () => this.markReaders(id), durable: () => this.durable() };
    return this.events.read(command, partition, signal);
  }

  /** Commits an atom that changes nothing, and says which groups of the partition are read. Without readers there is none. */
  markReaders(id: PartitionId): void {
    if (!this.events.isRead(id) || this.#failure || !this.holdings.canCommit(id)) return;
    // A read must not fail a write, after which all memory is rebuilt. The next atom says it.
    if (this.store.state.kind === 'full') return;
    this.commit({ partition: id, at: this.clock.now(), changes: NONE });
  }

  /** Writes all stale rows, a part with each group: one large write would delay the callers that wait for its group. */
  async writeTasks(): Promise<void> {
    for (let left = this.#pending.stale; left > 0; left -= TASKS_PER_GROUP) await this.log.writeTasks(TASKS_PER_GROUP);
  }

  /** Ends queues that have been empty for a while: a queue exists while it has tasks (the paper, 2). */
  dropEmpty(): void {
    for (const queue of this.#empty.over(this.clock.now(), this.config.emptyQueueRetentionMs)) {
      // The rows of its last tasks may not be deleted yet.
      if (!queue.isShown) continue;
      const { partition, ledger } = queue;
      if (!this.holdings.canCommit(partition)) continue;
      const dropped = [{ queueId: ledger.queueId, reap: false, queue }];
      this.commit({ partition, at: this.clock.now(), changes: [], dropped });
    }
  }

  /** Partitions with changes since the last call. */
  takeChanged(): CheckpointedPartition[] {
    const changed: CheckpointedPartition[] = [];
    for (const partition of this.#partitions.values()) {
      if (partition.changed.size === 0 && !this.#movedOn.has(partition)) continue;
      const ledgers = [...partition.changed].map((queue) => {
        queue.raiseFloor();
        return queue.ledger;
      });
      partition.changed.clear();
      const { id, lastTicket, nextQueueId, life, trimmedTicket } = partition;
      const trimTo = Math.max(trimmedTicket, this.events.trimTo(id, lastTicket, this.log.figures.bytes)) as Ticket;
      const lastEpoch = this.lastEpochOf(id);
      changed.push({ id, lastTicket, nextQueueId, life, lastEpoch, trimmedTicket, trimTo, changed: ledgers });
      partition.trimmedTicket = trimTo;
    }
    this.#movedOn.clear();
    return changed;
  }

  #partition(id: PartitionId): Partition {
    let partition = this.#partitions.get(id);
    if (!partition) {
      partition = newPartition(id);
      this.#partitions.set(id, partition);
    }
    return partition;
  }

  #add(partition: Partition, queue: Queue): void {
    partition.queues.add(queue);
    this.table.add(queue);
    queue.onOpened = this.#opened;
    if (!queue.isReserved) queue.limitBy(this.limits.of(queue.ledger.name));
    if (endRecords.has(queue.ledger.name) || signalRecords.has(queue.ledger.name)) this.records.add(queue);
    if (isSchedules(queue)) this.schedules.add(queue);
    this.listener.added(queue);
  }

  #drop(partition: Partition, queue: Queue): void {
    queue.dropped = true;
    queue.limitBy(undefined);
    partition.queues.delete(queue);
    this.table.remove(queue);
    this.records.delete(queue);
    this.adoptedKeys.delete(queue);
    this.cache.forget(queue);
    this.#empty.forget(queue);
    this.hiding.delete(queue);
    if (isSchedules(queue)) this.schedules.remove(queue);
    this.lastAttempts.forget(queue);
    if (queue.isReserved) this.#records.get(queue.ledger.name.name)?.forget(queue);
    partition.changed.delete(queue);
    this.#movedOn.add(partition);
    this.listener.removed(queue);
  }

  /** Queues of the group follow their new settings, pauses and limits from this turn on. */
  #recordChanged(records: Queue, change: TaskChange, ticket: Ticket, now: Instant): void {
    const { name } = records.ledger;
    this.#records.get(name.name)?.changed(records, change);
    if (pauseRecords.has(name)) this.#pauseChanged(name.group, patternOfPid(change.pid), now);
    if (limitRecords.has(name)) this.#limitsChanged(name.group, patternOfPid(change.pid));
    if (!settingsRecords.has(name)) return;
    for (const queue of this.table.ofGroup(name.group)) {
      const before = queue.settings;
      queue.settings = this.settings.of(queue.ledger.name);
      if (queue.settings.maxKeyBacklog === 0) queue.keyBacklogs = undefined;
      if (queue.settings.fair !== before.fair) queue.lanes?.reorder(before.fair, now);
      if (!isDeepStrictEqual(queue.settings.retry, before.retry)) this.lastAttempts.resettle(queue, ticket, now);
    }
  }

  #pauseChanged(group: string, pattern: string, now: Instant): void {
    const matches = namePattern(pattern);
    for (const queue of this.table.ofGroup(group)) {
      if (!matches(queue.ledger.name.name)) continue;
      const before = queue.pause;
      queue.pause = this.pauses.of(queue.ledger.name, now);
      if (before !== undefined && queue.pause === undefined) this.#resumed.add(queue);
    }
  }

  #limitsChanged(group: string, pattern: string): void {
    const matches = namePattern(pattern);
    for (const queue of this.table.ofGroup(group)) {
      if (queue.isReserved || !matches(queue.ledger.name.name)) continue;
      const wasLimited = queue.limits !== undefined;
      queue.limitBy(this.limits.of(queue.ledger.name));
      if (wasLimited && queue.isOffering) this.#resumed.add(queue);
    }
    // Requests that wait for different queues of one limit are served in the order in which they came.
    this.limits.changedOf(group);
  }

  readonly #opened = (queue: Queue): void => void this.#resumed.add(queue);

  #announceFreed(): void {
    // Taken before, because the leases that are granted now are commits of their own.
    const resumed = this.#takeResumed();
    for (const limit of this.limits.takeFreed()) this.listener.freed(limit);
    this.listener.opened(resumed);
  }

  #announceResumed(): void {
    this.listener.opened(this.#takeResumed());
  }

  #takeResumed(): readonly Queue[] {
    const resumed = [...this.#resumed];
    this.#resumed.clear();
    return resumed;
  }

  #noteChanged(partition: Partition, queue: Queue, now: Instant): void {
    if (queue.dropped) return;
    partition.changed.add(queue);
    this.cache.touch(queue);
    this.#noteCounts(queue, now);
  }

  #noteCounts(queue: Queue, now: Instant): void {
    if (queue.ledger.hasDue && !queue.isReserved) this.hiding.add(queue);
    else this.hiding.delete(queue);
    this.#empty.note(queue, now);
  }

  #announce(changes: readonly PlannedChange[]): void {
    let last: Queue | undefined;
    for (const { queue, change } of changes) {
      if (change.kind === 'dequeue') continue;
      if (change.after.visibility.kind === 'hidden') this.listener.hidden(queue);
      else if (queue !== last) {
        last = queue;
        this.listener.available(queue);
      }
    }
  }
}

/** The atom that commits the plan. */
function atomOf(
  { partition, at, created, changes, dropped, request }: PlannedAtom,
  ticket: Ticket,
  events: ApplyAtom['events'],
): ApplyAtom {
  return {
    partition,
    ticket,
    at,
    created: created?.length ? created.map(({ ledger: { queueId, name } }) => ({ queueId, name })) : NONE,
    changes: changes.map(({ change }) => change),
    dropped: dropped?.map(({ queueId, reap }) => ({ queueId, reap })) ?? NONE,
    request,
    events,
  };
}
