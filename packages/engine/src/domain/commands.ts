import type { EnqueueMode, EnqueueResult, QueueKinds, QueueName } from '@taskmaster/proto';
import type { CallSignal } from './call-signal.ts';
import type { Instant, LeaseToken, Pid } from './ids.ts';
import type { KindFilter } from './kind-filter.ts';
import type { LimitUse } from './queue-limits.ts';
import type { PauseRecord } from './queue-pauses.ts';
import type { Refusal } from './refusal.ts';
import type { ShownSignals } from './signal-box.ts';
import type {
  AfterTimeout,
  RetryPolicy,
  TaskError,
  TaskGiven,
  TaskHistory,
  TaskLinks,
  TaskParent,
  TaskState,
} from './task.ts';
import type { TaskEnd } from './task-end.ts';

// Commands of the engine and their outcomes. Commands are always valid: `service/parse` validates requests.

export interface EnqueueItem {
  /** The queue. Of a task that is published: the topic. */
  readonly queue: QueueName;
  /** True: the task goes to all queues that are subscribed to the topic. */
  readonly isPublished: boolean;
  /** Undefined: the engine assigns one, in FIFO order. */
  readonly pid: Pid | undefined;
  /** The payload to store. May be a view of a request of up to 4 MiB. Copy it to keep it after the call. */
  readonly data: Uint8Array;
  /** See `Payload`. */
  readonly headerBytes: number;
  /** Identity within the queue, apart from the PID. */
  readonly key: string | undefined;
  /** Undefined: nothing. */
  readonly given: TaskGiven | undefined;
  /** By when its first attempt must begin, or how long after the enqueue. Undefined: there is no such time. */
  readonly start?: { readonly by: Instant } | { readonly withinMs: number } | undefined;
  /** What it waits for. Undefined: nothing but its time. */
  readonly waitFor?: WaitFor | undefined;
  /** Its parent and its order key. Undefined: it has neither. */
  readonly links?: TaskLinks | undefined;
  /** With the mode SIGNAL: the id of the signal. Empty: it has none. */
  readonly signalId?: string | undefined;
  /** UNSPECIFIED: that of the queue's settings. */
  readonly mode: EnqueueMode;
  readonly delayMs: number;
  /** Until when the task is hidden, instead of `delayMs`. It may be past. */
  readonly runAt: Instant | undefined;
  readonly retry: RetryPolicy | undefined;
}

/** For which signals a new task waits. */
export interface WaitFor {
  readonly signals: number;
  /** For how long. Undefined: for as long as it takes. */
  readonly timeoutMs: number | undefined;
  readonly action: AfterTimeout;
  /** Whether what its children leave is kept for it. */
  readonly collect: boolean;
}

/** An item that names a task. */
export interface TaskItem {
  readonly queue: QueueName;
  /** Empty if the item has a key. */
  readonly pid: Pid;
  /** Names the task by its key. Undefined: by its PID. */
  readonly key?: string | undefined;
  /** Undefined: the item applies whether or not the task is leased. */
  readonly token: LeaseToken | undefined;
}

export interface DequeueItem extends TaskItem {
  /** True: the task goes back from a dead-letter queue to the queue that it came from. */
  readonly requeue: boolean;
  /** Undefined: the task leaves no result. */
  readonly result: TaskResult | undefined;
  /** Set: the task is cancelled, for this reason. */
  readonly cancelReason: string | undefined;
  /** Set: the task goes to this queue of the group, as it is. */
  readonly moveTo?: QueueName | undefined;
}

/** What a completed task leaves. */
export interface TaskResult {
  /** As `EnqueueItem.data`. */
  readonly data: Uint8Array;
  /** Undefined: as the queue's settings say. */
  readonly keepMs: number | undefined;
}

export interface RenewItem extends TaskItem {
  /** 0: that of the queue's settings. */
  readonly leaseDurationMs: number;
  /** Undefined: it does not change. Empty: none. */
  readonly progress: string | undefined;
  /** As `progress`. The engine copies it. */
  readonly checkpoint?: Uint8Array | undefined;
  /** How many tasks the call has that has begun. Undefined: nothing new. */
  readonly begun?: number | undefined;
}

export interface ReleaseItem extends TaskItem {
  /** Undefined: the backoff of the retry policy. */
  readonly delayMs: number | undefined;
  /** Until when the task is hidden, instead of `delayMs`. It may be past. */
  readonly runAt: Instant | undefined;
  readonly refundAttempt: boolean;
  /** True: the attempt does not count because its worker stops. Only of an attempt that is refunded. */
  readonly interrupted?: boolean;
  readonly error: TaskError | undefined;
  /** True: the attempt was the last one. */
  readonly deadLetter: boolean;
  /** True: the task waits and is not leased. */
  readonly waiting: boolean;
}

/** An update. All its queues are in one group. */
export interface UpdateCommand {
  readonly group: string;
  readonly enqueue: readonly EnqueueItem[];
  readonly dequeue: readonly DequeueItem[];
  readonly renew: readonly RenewItem[];
  readonly release: readonly ReleaseItem[];
  /** True if an enqueue is published. */
  readonly publishes: boolean;
  /** 1 to 64 bytes, as a latin1 string. Undefined: none. */
  readonly requestId: string | undefined;
}

export interface EnqueueOutcome {
  readonly pid: Pid;
  readonly result: EnqueueResult;
  /** True if the task existed already and is leased. */
  readonly leased: boolean;
  /** Of a task that was published: what happened in the queues. */
  readonly published?: readonly PublishedTask[];
}

/** A task that was published into a queue. */
export interface PublishedTask extends Omit<EnqueueOutcome, 'published'> {
  readonly queue: QueueName;
}

export interface RenewOutcome {
  readonly until: Instant;
  /** Why the task was cancelled. Undefined: it was not. */
  readonly cancelReason: string | undefined;
}

export interface UpdateOutcome {
  readonly enqueued: readonly EnqueueOutcome[];
  readonly renewed: readonly RenewOutcome[];
  readonly released: readonly { readonly until: Instant | undefined; readonly deadLetterQueue: string | undefined }[];
}

/** Where the items of an update end in the lists of its batch. They begin where those of the update before end. */
export interface UpdateEnd {
  readonly enqueue: number;
  readonly dequeue: number;
  readonly renew: number;
  readonly release: number;
}

/**
 * Independent updates of one group, one behind the other in the same lists. They are decided in order, and each sees the effects
 * of those before it. The request id is that of the whole batch.
 */
export interface BatchCommand extends UpdateCommand {
  /** At least one. */
  readonly updates: readonly UpdateEnd[];
}

/** The outcomes of the updates that were applied, one behind the other. A refused update has changed nothing. */
export interface BatchOutcome extends UpdateOutcome {
  /** By the index of the update. */
  readonly refusals: ReadonlyMap<number, Refusal>;
}

/** Queues by their names, those that exist and those that come later. */
export interface LeasePattern {
  /** Patterns with the same key match the same queues for the same principal. */
  readonly key: string;
  /** The principal of the caller. Undefined: callers are not told apart. */
  readonly principal: string | undefined;
  /** Matches full names in linear time. Undefined: all names match. */
  readonly matches: ((fullName: string) => boolean) | undefined;
  readonly group: string | undefined;
  /** How many of the named queues come before. */
  readonly after: number;
  /** Given by the caller. */
  readonly id: number;
  /** Whether the caller may lease from a group now. Undefined: from all. */
  readonly mayLease: ((group: string) => boolean | undefined) | undefined;
}

/** A queue that matches a pattern of a lease. */
export interface MatchedQueue {
  readonly queue: QueueName;
  readonly patternId: number;
}

export interface LeaseCommand {
  /** Without duplicates. */
  readonly queues: readonly QueueName[];
  /** Ordered by `after`. Undefined: none. */
  readonly patterns?: readonly LeasePattern[] | undefined;
  readonly maxTasks: number;
  /** 0: that of each queue's settings. */
  readonly leaseDurationMs: number;
  /** The highest PID to lease. Undefined: no limit. */
  readonly maxPid: Pid | undefined;
  readonly waitMs: number;
  readonly worker: string;
  readonly workerAddress: string;
  /**
   * Size limit of the reply, in bytes. The first task is always included. A task counts with its payload, its PID, its progress
   * and 64 bytes for the rest. A reply must fit into 4 MiB, the default limit of gRPC clients.
   */
  readonly maxBytes: number;
  /** The kinds of tasks that it accepts. Undefined: all tasks. */
  readonly kinds?: KindFilter | undefined;
  /** How the worker begins the tasks. Undefined: all have begun when they are leased. */
  readonly starts?: { readonly now: number; readonly together: number } | undefined;
  /** Whether the tasks come with what they keep of the signals that came for them. */
  readonly includeSignals?: boolean | undefined;
}

export interface LeasedTask {
  readonly queue: QueueName;
  /** Of the pattern by which the task was found. Undefined: its queue was named. */
  readonly patternId?: number | undefined;
  readonly pid: Pid;
  /** The stored payload. */
  readonly data: Uint8Array;
  /** See `Payload`. */
  readonly headerBytes: number;
  readonly token: LeaseToken;
  readonly until: Instant;
  readonly attempt: number;
  readonly enqueuedAt: Instant;
  /** 0: no limit. */
  readonly maxAttempts: number;
  /** Undefined: as requested, or the default. */
  readonly leaseDurationMs: number | undefined;
  /** How long the attempt may take. 0: there is no limit. */
  readonly timeLimitMs: number;
  /** Set: the worker has to tell that it begins. Above 0: before it does, in a call with at most so many tasks. */
  readonly unbegun?: number | undefined;
  /** Its key, what it was given, and what earlier attempts have reported. Undefined: nothing. */
  readonly history: TaskHistory | undefined;
  /** What came for it while it waited. Undefined: nothing, or it was not asked for. */
  readonly signals?: LeasedSignals | undefined;
}

/** What came for a leased task, if it is not too much for a lease. */
export type LeasedSignals = { readonly kind: 'all'; readonly box: ShownSignals } | { readonly kind: 'left out' };

export interface AwaitedTask {
  readonly queue: QueueName;
  readonly pid: Pid;
  /** Of a worker that wants to know when to stop. */
  readonly token: LeaseToken | undefined;
}

/** A wait for the ends of tasks. All their queues are in one group. */
export interface WaitCommand {
  readonly group: string;
  readonly tasks: readonly AwaitedTask[];
  readonly waitMs: number;
}

/** A task of a wait that has ended. */
export interface EndedTask {
  /** Its index in the command. */
  readonly index: number;
  readonly end: TaskEnd;
}

export interface QueueFilter {
  /** Matches full names in linear time. Undefined: all names match. */
  readonly matches: ((fullName: string) => boolean) | undefined;
  readonly group: string | undefined;
  readonly minAvailable: number | undefined;
  readonly maxAvailable: number | undefined;
  readonly minLeased: number | undefined;
  readonly maxLeased: number | undefined;
  readonly minDelayed: number | undefined;
  readonly maxDelayed: number | undefined;
}

export interface ListCommand {
  readonly filter: QueueFilter;
  readonly limit: number;
  /** The last queue of the previous page. Undefined: this is the first page. */
  readonly after: QueueName | undefined;
  /** True: include empty queues whose figures are still kept. */
  readonly includeEmpty?: boolean;
}

/** Numbers of operations on a queue, since it was created, since its node started, or since it moved to its node. */
export interface QueueOperations {
  readonly enqueued: number;
  readonly leased: number;
  readonly completed: number;
  /** Attempts that failed: the worker said so, or the lease ended. */
  readonly failed: number;
  /** Tasks that left the queue for its dead-letter queue. */
  readonly deadLettered: number;
  /** For how long the leased tasks had waited since they were due, all together, in ms. */
  readonly waitedMs: number;
  /** For how long the completed tasks had been leased, all together, in ms. */
  readonly workedMs: number;
}

export interface QueueStats {
  readonly queue: QueueName;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  /** Of the delayed ones: those that wait for something other than their time. */
  readonly waiting: number;
  readonly completed: number;
  /** Per second. */
  readonly enqueueRate: number;
  readonly leaseRate: number;
  readonly completeRate: number;
  /** Failed attempts per second. */
  readonly failureRate: number;
  readonly meanLeaseMs: number;
  readonly oldestAgeMs: number;
  /** Undefined: it is not paused. */
  readonly pause: PauseRecord | undefined;
  /** The limits that hold its available tasks back, first those that have for the longest time. None while it is paused. */
  readonly heldBy: readonly LimitUse[];
  /** Undefined: its tasks have no kinds. */
  readonly kinds?: QueueKinds | undefined;
  /** How many limit keys have available tasks that limits hold back. */
  readonly heldKeys: number;
  /** Available tasks that limits hold back. */
  readonly heldTasks: number;
  /** Since when the first of these are held back. Undefined: none are. */
  readonly heldSince: Instant | undefined;
  readonly operations: QueueOperations;
}

export interface QueuePage {
  readonly queues: readonly QueueStats[];
  readonly more: boolean;
}

export type StatsCommand =
  | { readonly kind: 'named'; readonly queues: readonly QueueName[] }
  | { readonly kind: 'filtered'; readonly filter: QueueFilter; readonly limit: number };

export interface QueueTotals {
  readonly queues: number;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly waiting: number;
  readonly completed: number;
}

export interface StatsReport {
  readonly queues: readonly QueueStats[];
  readonly totals: QueueTotals;
}

export interface PeekCommand {
  readonly queue: QueueName;
  readonly kind: 'head' | 'leased' | 'delayed' | 'waiting';
  readonly limit: number;
  /** For the head: only tasks with larger PIDs. */
  readonly after?: Pid | undefined;
  readonly includeData: boolean;
  /** Undefined: all tasks. */
  readonly kinds?: KindFilter | undefined;
}

/** Tasks that have not ended, and whose ends a task waits for. */
export interface ShownChildren {
  /** Their names, with what their failure does to the task. */
  readonly tasks: readonly Pick<TaskParent, 'queue' | 'pid' | 'onFailure'>[];
  /** True: there may be others. */
  readonly isCut: boolean;
}

export interface GetCommand {
  readonly queue: QueueName;
  readonly pids: readonly Pid[];
  /** Keys of tasks, which are shown after those of the PIDs. Undefined: none. */
  readonly keys?: readonly string[] | undefined;
  readonly includeData: boolean;
  /** Whether the signals that came for the tasks are shown. */
  readonly includeSignals?: boolean;
  readonly includeChildren?: boolean;
}

/** A task as users see it. `state` is undefined if the task does not exist. */
export interface TaskView {
  readonly queue: QueueName;
  /** Empty if there is no task with the key. */
  readonly pid: Pid;
  /** The key by which it was asked for. Undefined: it was asked for by its PID. */
  readonly key?: string | undefined;
  readonly state: TaskState | undefined;
  /** The stored payload. */
  readonly data: Uint8Array | undefined;
  /** The signals that came for it, if they were asked for. */
  readonly signals?: ShownSignals | undefined;
  /** The tasks for which it waits, if they were asked for. */
  readonly children?: ShownChildren | undefined;
}

/** Options of every operation. */
export interface CallContext {
  /** Ends the wait of a lease, after which no task is leased, or a wait for tasks. */
  readonly signal?: CallSignal | undefined;
}

/** Durations by size: how many are at most as long as each bound, and longer than the bound before. */
export interface DurationCounts {
  /** In ms, ascending. */
  readonly bounds: readonly number[];
  /** One for each bound, and one for longer durations. */
  readonly counts: ArrayLike<number>;
  readonly sumMs: number;
}

/** A backup of the cluster that has failed. */
export interface BackupFailure {
  /** In ms since 1970. */
  readonly at: number;
  /** As its caller tells it. */
  readonly problem: string;
}

/** Figures of the whole engine, for metrics. Counts begin at the start of the node. */
export interface EngineFigures {
  readonly queues: number;
  readonly schedules: number;
  /** Schedules that do not run because the system clock was set back behind their last decided run. */
  readonly schedulesAhead: number;
  /** Lease requests that wait for tasks. */
  readonly waiters: number;
  /** Requests that wait for tasks to end. */
  readonly taskWaits: number;
  /** Pauses of queues that have not ended, also of queues without tasks. */
  readonly pauses: number;
  /** Bulk runs that go on. */
  readonly bulkRuns: number;
  /** Requests that wait for events. */
  readonly eventReaders: number;
  readonly inFlightRequests: number;
  readonly inFlightBytes: number;
  readonly cacheBytes: number;
  readonly refills: number;
  readonly coldReads: number;
  readonly commits: number;
  readonly commitBytes: number;
  readonly atoms: number;
  /** Number of partitions that are sent to backups now. */
  readonly runningBackups: number;
  /** Bytes of rows and log entries sent to backups since the start. */
  readonly backupBytes: number;
  /** How far the clock of the engine is ahead of the system clock. */
  readonly clockAheadMs: number;
  readonly tasksEnqueued: number;
  readonly tasksLeased: number;
  readonly tasksCompleted: number;
  readonly leasesExpired: number;
  /**
   * Tasks that ended because no worker had leased them by the instant by which they had to start, or because they had waited in
   * vain.
   */
  readonly startsMissed: number;
  readonly tasksDeadLettered: number;
  /** Tasks that went because as many waited in their queues as may. */
  readonly tasksDropped: number;
  /** Attempts that failed: the worker said so, or the lease ended. */
  readonly attemptsFailed: number;
  /** Attempts that did not count because they were interrupted. */
  readonly attemptsInterrupted: number;
  /** For how long tasks had waited since they were due, when they were leased. */
  readonly waited: DurationCounts;
  /** For how long completed tasks had been leased. */
  readonly worked: DurationCounts;
  /**
   * When the oldest of the backups began that have the partitions here, in ms since 1970. Undefined until each partition was sent
   * whole since the start.
   */
  readonly backedUpAt: number | undefined;
  /** Failed backups of the cluster that callers have told of since the start. */
  readonly backupsFailed: number;
  /** The last of them. Undefined: there is none, or its partition was sent whole since, or has moved away. */
  readonly backupFailure: BackupFailure | undefined;
  /** Results and other records of ends that went before their time, because their group had too many bytes of them. */
  readonly resultsEvicted: number;
  readonly refused: number;
  /** Runs of schedules that were enqueued and not triggered. */
  readonly runsEnqueued: number;
  readonly runsMissed: number;
  readonly runsSkipped: number;
  readonly runsTriggered: number;
}

export type EngineHealth =
  /** `replayedAtoms`: entries of the commit log that were replayed so far. */
  | { readonly kind: 'starting'; readonly replayedAtoms?: number }
  | { readonly kind: 'serving' }
  /** The disk is full. Enqueues are refused. Leases, completions, renewals and reads continue, in reserved space. */
  | { readonly kind: 'full' }
  /** A write failed. Nothing is written until a restart. */
  | { readonly kind: 'failed'; readonly cause: Error }
  | { readonly kind: 'stopping' };
