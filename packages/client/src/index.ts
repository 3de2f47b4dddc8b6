/**
 * The TaskMaster client.
 *
 * - `connect(endpoints | options)` → `TaskMasterClient`; `clientOver(transport)` for an engine in the same process.
 * - `client.queue<T>(name, { codec, schema })` → `Queue<T>`: `enqueue`, `enqueueMany`, `lease`, `waitFor`, `peek`, `get`,
 *   `signal`, `signals`, `stats`, `delete`, `resetLeases`, `pause`, `resume`, `limit`, `unlimit`, and `task` for a task that is
 * enqueued with other
 *   changes.
 * - `client.shardedQueue<T>(name, { shards })` → `ShardedQueue<T>`: a queue that is divided over several nodes.
 * - `client.matchingQueues({ regex })` → `MatchingQueues<T>`: queues as they come, worked on in fair turns.
 * - `spread(queues)` → `SpreadQueue<T>`: keeps accepting tasks while any of several clusters or groups is up.
 * - `client.topic<T>(name)` → `Topic<T>`: `publish`, `subscribe`, `unsubscribe`, `subscriptions`, `task`, `onEveryWorker`.
 * - `client.update()` → `Update`: an atomic change, `commit()`.
 * - `client.flow()` → `Flow`: tasks that wait for each other, `add` and `commit`; `client.waitForFlow`.
 * - `client.worker(queues, handler, options)` → `Worker`: `start`, `run`, `stop`.
 * - `client.pauseQueues`, `client.resumeQueues`, `client.pauses`: pauses of the queues that match a pattern.
 * - `client.limitQueues`, `client.unlimitQueues`, `client.limits`: limits of how many of their tasks are leased.
 * - `client.bulk(options)` → `BulkRun`: the node does the same to all tasks that match; `client.previewBulk`, `client.bulkRuns`.
 * - `client.events`: what happens in the queues that match a pattern, as an async iterator; `client.eventPosition`.
 * - `client.queueSettings`: `put`, `list`, `of`, `delete` settings of queues.
 * - `client.schedules` → `Schedules`: `put`, `list`, `get`, `delete`, `pause`, `resume`, `trigger`.
 * - `client.cluster` → `Cluster`: `members`, `partitions`, `drain`, `remove`, `backupPartition`.
 * - Calls reject with a `TaskMasterError`, and with a `TypeError` for wrong use of this API.
 */

export type {
  BackupEnd,
  BackupHeader,
  BackupPoint,
  QueueLimit,
  QueuePause,
  QueueStats,
  QueueTotals,
  UnreachableNode,
} from '@taskmaster/proto';
export {
  type BulkAction,
  type BulkDoneOptions,
  type BulkOptions,
  type BulkPreview,
  type BulkPreviewOptions,
  type BulkProgress,
  BulkRun,
  type BulkRunOptions,
} from './api/bulk.ts';
export {
  clientOver,
  type QueueOptions,
  type QueueTaskOptions,
  type SchemaQueueOptions,
  type ShardOptions,
  TaskMasterClient,
} from './api/client.ts';
export {
  type BackupOptions,
  Cluster,
  type ClusterMember,
  type ClusterMembers,
  type ClusterNode,
  type ClusterPartition,
  type ClusterPartitions,
  type ClusterProxy,
  type DrainOutcome,
  type LostPartition,
  type MemberState,
  type PartitionState,
  type RemoveOptions,
  type RemoveOutcome,
} from './api/cluster.ts';
export { connect } from './api/connect.ts';
export {
  type DeadLetterOptions,
  DeadLetters,
  type DeadLettersOutcome,
  type SettleDeadLettersOptions,
} from './api/dead-letters.ts';
export { type EventsOptions, type QueueEvent, type QueueEventKind, queueEventKinds } from './api/events.ts';
export { Flow, type FlowEnds, type FlowHandle, type FlowTask, type FlowTaskOptions } from './api/flow.ts';
export type { HeldKey, LeaseRate, LimitInfo, LimitKeysOptions, LimitOptions, UnlimitOutcome } from './api/limits.ts';
export { type MatchingFilter, type MatchingOptions, MatchingQueues } from './api/matching-queues.ts';
export type { PauseInfo, PauseOptions, ResumeOutcome } from './api/pauses.ts';
export { type CancelOptions, type EnqueueOptions, type GetOptions, type PeekOptions, Queue } from './api/queue.ts';
export type { FairTurns, QueueSettings, QueueSettingsInfo, QueueSettingsOfClient } from './api/queue-settings.ts';
export {
  type ListSchedulesOptions,
  type PutScheduleOutcome,
  type ScheduleOptions,
  Schedules,
} from './api/schedules.ts';
export type { ShardedQueueStats } from './api/shards/shard-stats.ts';
export { ShardedQueue } from './api/shards/sharded-queue.ts';
export {
  type SpreadOptions,
  type SpreadOutcome,
  SpreadQueue,
  type SpreadStats,
  spread,
} from './api/spread/spread-queue.ts';
export type { SpreadTarget, TargetState } from './api/spread/target.ts';
export { type PublishOptions, type SubscribeOptions, type Subscription, Topic } from './api/topic.ts';
export type { Identity, Right, RightQuestion, WhoAmIOptions } from './api/who-am-i.ts';
export { type DataOf, handle, type QueueHandler, type ResultOf } from './api/workers.ts';
export type { BackupPart } from './calls/backup-parts.ts';
export type { Leased } from './leases/lease.ts';
export type { FlowOfTask, TaskOfFlow, UnfinishedTask } from './tasks/flow-of.ts';
export type { HeaderCondition, HeaderFilter } from './tasks/header-filter.ts';
export type { ListOptions, QueueFilterOptions, StatsOptions, StatsReport } from './tasks/introspection.ts';
export type { SeveralQueues } from './tasks/lease-source.ts';
export type { LeaseOptions, LeaseStarts } from './tasks/lease-tasks.ts';
export { type CompleteOptions, LeasedTask } from './tasks/leased-task.ts';
export type { ParentTask, SignalWait } from './tasks/links.ts';
export type { LoggedTask } from './tasks/logged-task.ts';
export {
  NewTask,
  type QueueRef,
  type TaskDefaults,
  type TaskHeaders,
  type TaskOptions,
  type TaskRetryOptions,
} from './tasks/new-task.ts';
export { type MissedRuns, type ScheduledRun, type ScheduleInfo, scheduledRun } from './tasks/schedule-info.ts';
export type { ReadSignalsOptions, ReceivedSignal, SignalOptions } from './tasks/signals.ts';
export type { TaskFailure, TaskInfo, TaskRetryPolicy, TaskSummary } from './tasks/task-info.ts';
export type { ResultOptions } from './tasks/task-result.ts';
export {
  type EnqueueOutcome,
  type LeaseRef,
  type PublishedTask,
  type ReleaseOptions,
  type ReleaseOutcome,
  type RenewOptions,
  type SignalResult,
  Update,
  type UpdateOutcome,
} from './tasks/update.ts';
export type { TaskEnd, WaitForOptions } from './tasks/wait-for.ts';
export { type TaskLogFields, taskLogFields } from './telemetry/log-fields.ts';
export type { Transport } from './transport/transport.ts';
export { bytesCodec, type Codec, jsonCodec, textCodec } from './values/codec.ts';
export { type Duration, durationMs } from './values/duration.ts';
export {
  CancelledError,
  DeadlineExceededError,
  DiskFullError,
  InvalidDataError,
  InvalidRequestError,
  isTaskMasterError,
  LastMemberError,
  LeaseExpiredError,
  LeaseLostError,
  MemberAliveError,
  MemberLeftError,
  NoClusterError,
  NotLeasedError,
  OverloadedError,
  PermissionDeniedError,
  type RefusedItem,
  TaskCancelledError,
  TaskExistsError,
  TaskMasterError,
  TaskNotCompletedError,
  TaskNotFoundError,
  TimeLimitError,
  UnauthenticatedError,
  UnavailableError,
  UnknownMemberError,
  WrongClusterError,
} from './values/errors.ts';
export type {
  CallOptions,
  ClientOptions,
  ConnectOptions,
  GrpcOptions,
  ReconnectEvent,
  RetryEvent,
  Routing,
  StopOptions,
  TelemetryOptions,
  TlsOptions,
  UpdateOptions,
} from './values/options.ts';
export {
  comparePids,
  type Pid,
  type PidLike,
  type PidPart,
  pidBytes,
  pidFromText,
  pidOf,
  pidText,
} from './values/pid.ts';
export type { RetryOptions } from './values/retry.ts';
export type { ByKey, TaskName } from './values/task-name.ts';
export { EveryWorker, type EveryWorkerOptions } from './worker/every-worker.ts';
export type { ThreadEnqueue, ThreadHandler, ThreadResult, ThreadTask } from './worker/handler-threads.ts';
export type { Middleware } from './worker/middleware.ts';
export { Worker } from './worker/worker.ts';
export { WorkerGroup } from './worker/worker-group.ts';
export type {
  BackoffFunction,
  BatchCall,
  BatchHandler,
  BatchOptions,
  BatchOutcome,
  BatchWorkerOptions,
  Handler,
  HandlerResult,
  ResultSettings,
  RunOptions,
  TaskRun,
  WorkerOptions,
} from './worker/worker-options.ts';
export { UnrecoverableError } from './worker/worker-options.ts';
