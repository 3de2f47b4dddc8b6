import type { EnqueueMode, EnqueueResult, QueueName } from '@taskmaster/proto';
import type { CallSignal } from './call-signal.ts';
import type { Instant, LeaseToken, Pid } from './ids.ts';
import type { RetryPolicy, TaskState } from './task.ts';

/** What the engine is asked and what it answers. Commands are valid by construction: the transports validate. */

export interface EnqueueItem {
  readonly queue: QueueName;
  /** undefined: assign one, FIFO. */
  readonly pid: Pid | undefined;
  /** May be a view of a whole request of up to 4 MiB: what outlives the call is to be copied. */
  readonly data: Uint8Array;
  readonly mode: EnqueueMode;
  readonly delayMs: number;
  readonly retry: RetryPolicy | undefined;
}

export interface DequeueItem {
  readonly queue: QueueName;
  readonly pid: Pid;
  /** undefined: unconditional. */
  readonly token: LeaseToken | undefined;
}

export interface RenewItem extends DequeueItem {
  readonly leaseMs: number;
}

export interface ReleaseItem extends DequeueItem {
  /** undefined: as the retry policy says. */
  readonly delayMs: number | undefined;
  readonly refundAttempt: boolean;
}

/** All queues are of the one group. */
export interface UpdateCommand {
  readonly group: string;
  readonly enqueue: readonly EnqueueItem[];
  readonly dequeue: readonly DequeueItem[];
  readonly renew: readonly RenewItem[];
  readonly release: readonly ReleaseItem[];
  /** latin1, 1 to 64 bytes. */
  readonly requestId: string | undefined;
}

export interface EnqueueOutcome {
  readonly pid: Pid;
  readonly result: EnqueueResult;
  /** Whether the task that was there already is leased. */
  readonly leased: boolean;
}

export interface UpdateOutcome {
  readonly enqueued: readonly EnqueueOutcome[];
  readonly renewed: readonly { readonly until: Instant }[];
  readonly released: readonly { readonly until: Instant | undefined; readonly deadLetterQueue: string | undefined }[];
}

export interface LeaseCommand {
  readonly queues: readonly QueueName[];
  readonly maxTasks: number;
  readonly leaseMs: number;
  /** Inclusive; undefined: no bound. */
  readonly maxPid: Pid | undefined;
  readonly waitMs: number;
  readonly worker: string;
  readonly workerAddress: string;
  /**
   * Bound of the reply's bytes; the first task comes whatever its size. A task counts with its payload, its PID and 64
   * bytes for the rest: a reply must fit into the 4 MiB that gRPC clients take by default.
   */
  readonly maxBytes: number;
}

export interface LeasedTask {
  readonly queue: QueueName;
  readonly pid: Pid;
  readonly data: Uint8Array;
  readonly token: LeaseToken;
  readonly until: Instant;
  readonly attempt: number;
  readonly enqueuedAt: Instant;
  readonly retry: RetryPolicy | undefined;
}

export interface QueueFilter {
  /** Linear-time matcher over full names. */
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
  /** The last queue of the page before; undefined: from the first on. */
  readonly after: QueueName | undefined;
}

export interface QueueStats {
  readonly queue: QueueName;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly completed: number;
  /** Per second. */
  readonly enqueueRate: number;
  readonly leaseRate: number;
  readonly completeRate: number;
  readonly meanLeaseMs: number;
  readonly oldestAgeMs: number;
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
  readonly completed: number;
}

export interface StatsReport {
  readonly queues: readonly QueueStats[];
  readonly totals: QueueTotals;
}

export interface PeekCommand {
  readonly queue: QueueName;
  readonly kind: 'head' | 'leased' | 'delayed';
  readonly limit: number;
  readonly includeData: boolean;
}

export interface GetCommand {
  readonly queue: QueueName;
  readonly pids: readonly Pid[];
  readonly includeData: boolean;
}

/** A task as shown to people; `state` is undefined when there is no such task. */
export interface TaskView {
  readonly queue: QueueName;
  readonly pid: Pid;
  readonly state: TaskState | undefined;
  readonly data: Uint8Array | undefined;
}

/** What every operation may be given. */
export interface CallContext {
  /** Gives up waiting; nothing is leased afterwards. */
  readonly signal?: CallSignal | undefined;
}

/** Soft figures of the whole engine, for metrics. Counts are since the start. */
export interface EngineFigures {
  readonly queues: number;
  readonly waiters: number;
  readonly inFlightRequests: number;
  readonly inFlightBytes: number;
  readonly cacheBytes: number;
  readonly refills: number;
  readonly coldReads: number;
  readonly commits: number;
  readonly commitBytes: number;
  readonly atoms: number;
  readonly tasksEnqueued: number;
  readonly tasksLeased: number;
  readonly tasksCompleted: number;
  readonly leasesExpired: number;
  readonly tasksDeadLettered: number;
  readonly refused: number;
}

/**
 * The operations of a node (the paper, 4). Every promise resolves after what it says is durable, and rejects with a
 * `Refusal` when nothing was changed.
 */
export interface TaskEngine {
  updateTasks(command: UpdateCommand, context?: CallContext): Promise<UpdateOutcome>;
  leaseTasks(command: LeaseCommand, context?: CallContext): Promise<readonly LeasedTask[]>;
  listQueues(command: ListCommand): Promise<QueuePage>;
  queueStats(command: StatsCommand): Promise<StatsReport>;
  peekTasks(command: PeekCommand): Promise<readonly TaskView[]>;
  getTasks(command: GetCommand): Promise<readonly TaskView[]>;
  /** Resolves with the number of tasks deleted. */
  deleteQueue(queue: QueueName): Promise<number>;
  /** Resolves with the number of tasks made available. */
  resetLeases(queue: QueueName): Promise<number>;
  figures(): EngineFigures;
  /** Whether requests are served, and why not. */
  readonly health: EngineHealth;
  /** Refuses new requests, ends long polls with no tasks, finishes what is in flight, writes a last checkpoint. */
  stop(): Promise<void>;
}

export type EngineHealth =
  | { readonly kind: 'starting' }
  | { readonly kind: 'serving' }
  /** The disk is full: enqueues are refused; leases, completions, renewals and reads go on from reserved space. */
  | { readonly kind: 'full' }
  /** Nothing is written any more. */
  | { readonly kind: 'failed'; readonly cause: Error }
  | { readonly kind: 'stopping' };
