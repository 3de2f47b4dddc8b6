export { decodeAcceptedLoss, encodeAcceptedLoss } from './accepted-loss.ts';
export { BATCH_START, batchOf, eachResult, endOf } from './batches.ts';
export {
  type BulkCommand,
  type BulkOperations,
  type BulkPlace,
  bulkActions,
  bulkTasks,
  type EndedBulkRun,
  isFiltering,
} from './bulk-runs.ts';
export { ByteReader, ByteWriter, latin1Of, UnreadableBytesError } from './bytes.ts';
export type { CallSignal } from './call-signal.ts';
export type {
  BatchCommand,
  DequeueItem,
  DurationCounts,
  EndedTask,
  EngineFigures,
  EngineHealth,
  EnqueueItem,
  EnqueueOutcome,
  GetCommand,
  LeaseCommand,
  LeasedSignals,
  LeasedTask,
  LeasePattern,
  ListCommand,
  MatchedQueue,
  PeekCommand,
  PublishedTask,
  QueueFilter,
  QueueOperations,
  QueuePage,
  QueueStats,
  ReleaseItem,
  RenewItem,
  StatsCommand,
  StatsReport,
  TaskItem,
  TaskResult,
  TaskView,
  UpdateCommand,
  UpdateEnd,
  UpdateOutcome,
  WaitCommand,
} from './commands.ts';
export { deadLetterPid, defaultDeadLetters } from './dead-letter-queues.ts';
export {
  EventFilter,
  type EventsReply,
  eventsReply,
  OLDEST,
  parsePosition,
  type ReadEventsCommand,
} from './events.ts';
export { existingPartition } from './existing-partition.ts';
export { FirstTimes } from './first-times.ts';
export { giveBack } from './give-back.ts';
export { type GroupLimits, groupQuotas } from './group-limits.ts';
export { dataOf, headerRoom, headersOf, type Payload, type TaskHeaders, withHeaders } from './headers.ts';
export type { Instant, Key, LeaseToken, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
export { afterPrefix, metaKeys } from './keys.ts';
export { KindFilter } from './kind-filter.ts';
export { namePattern } from './name-pattern.ts';
export { type LimitCommand, type LimitOperations, type LimitUse, limitMessage } from './queue-limits.ts';
export type { PauseCommand, PauseOperations, PauseRecord } from './queue-pauses.ts';
export { inOrder, type SettingsOperations, type SettingsRecord, settingsOf } from './queue-settings.ts';
export { METADATA_VALUE_CHARACTERS, Refusal, type RefusedItem, taskMetadata, UpdateRefusal } from './refusal.ts';
export type {
  ListSchedulesCommand,
  PutScheduleCommand,
  ScheduleEngine,
  ScheduleView,
} from './schedules/schedule-commands.ts';
export { cronProblem, isTimeZone } from './schedules/schedule-rule.ts';
export { type KeptSignal, shownBytes } from './signal-box.ts';
export {
  DEAD_LETTER_SUFFIX,
  type Failure,
  givenIn,
  isParked,
  leasedHistoryBytes,
  NEVER,
  NO_LINKS,
  NOTHING_GIVEN,
  type RetryPolicy,
  type TaskError,
  type TaskGiven,
  type TaskLinks,
  type TaskParent,
  type TaskState,
} from './task.ts';
export type { TaskEnd } from './task-end.ts';
export {
  type HeaderFilter,
  type HeaderTest,
  type ShownSubscription,
  type Subscription,
  type SubscriptionKey,
  subscriptionMessage,
} from './topics.ts';
