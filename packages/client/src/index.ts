/**
 * The TaskMaster client.
 *
 * - `connect(endpoints | options)` → `TaskMasterClient`; `clientOver(transport)` for an engine in the same process.
 * - `client.queue<T>(name, { codec, schema })` → `Queue<T>`: `enqueue`, `enqueueMany`, `lease`, `peek`, `get`, `stats`,
 *   `delete`, `resetLeases`, and `task` for a part of a larger change.
 * - `client.update()` → `Update`: an atomic change, `commit()`.
 * - `client.worker(queues, handler, options)` → `Worker`: `start`, `run`, `stop`.
 * - `client.cluster` → `Cluster`: `members`, `partitions`, `drain`, `remove`.
 * - Every rejection is a `TaskMasterError`; misuse of this API is a `TypeError`.
 */

export type { QueueStats, QueueTotals, UnreachableNode } from '@taskmaster/proto';
export {
  clientOver,
  type DataOf,
  type QueueOptions,
  type SchemaQueueOptions,
  TaskMasterClient,
} from './client.ts';
export {
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
} from './cluster.ts';
export { bytesCodec, type Codec, jsonCodec, textCodec } from './codec.ts';
export { connect } from './connect.ts';
export { type Duration, durationMs } from './duration.ts';
export {
  Cancelled,
  DeadlineExceeded,
  DiskFull,
  InvalidData,
  InvalidRequest,
  isTaskMasterError,
  LastMember,
  LeaseExpired,
  LeaseLost,
  MemberAlive,
  MemberLeft,
  NoCluster,
  NotLeased,
  Overloaded,
  type RefusedItem,
  TaskExists,
  TaskMasterError,
  TaskNotFound,
  Unavailable,
  UnknownMember,
} from './errors.ts';
export type { ListOptions, QueueFilterOptions, StatsOptions, StatsReport } from './introspection.ts';
export type { Leased } from './lease.ts';
export type { LeaseOptions } from './lease-tasks.ts';
export { type CompleteOptions, LeasedTask } from './leased-task.ts';
export { NewTask, type QueueRef, type TaskOptions, type TaskRetryOptions } from './new-task.ts';
export type {
  CallOptions,
  ClientOptions,
  ConnectOptions,
  GrpcOptions,
  ReconnectEvent,
  RetryEvent,
  Routing,
  StopOptions,
  TlsOptions,
  UpdateOptions,
} from './options.ts';
export { comparePids, type Pid, type PidLike, type PidPart, pidBytes, pidFromText, pidOf, pidText } from './pid.ts';
export { type EnqueueOptions, type GetOptions, type PeekOptions, Queue } from './queue.ts';
export type { RetryOptions } from './retry.ts';
export type { TaskInfo, TaskRetryPolicy, TaskSummary } from './task-info.ts';
export type { Transport } from './transport.ts';
export {
  type EnqueueOutcome,
  type LeaseRef,
  type ReleaseOptions,
  type ReleaseOutcome,
  Update,
  type UpdateOutcome,
} from './update.ts';
export { Worker } from './worker.ts';
export type { Handler, HandlerResult, RunOptions, WorkerOptions } from './worker-options.ts';
