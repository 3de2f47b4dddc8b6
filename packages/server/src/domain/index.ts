export { BATCH_START, batchOf, eachResult, onlyOutcome } from './batches.ts';
export { ByteReader, ByteWriter, latin1Of, UnreadableBytesError, writeLatin1 } from './bytes.ts';
export type { CallSignal } from './call-signal.ts';
export type {
  AwaitedTask,
  BatchCommand,
  BatchOutcome,
  CallContext,
  DequeueItem,
  DurationCounts,
  EndedTask,
  EngineFigures,
  EngineHealth,
  EnqueueItem,
  EnqueueOutcome,
  GetCommand,
  LeaseCommand,
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
  QueueTotals,
  ReleaseItem,
  RenewItem,
  RenewOutcome,
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
export { existingPartition } from './existing-partition.ts';
export { giveBack } from './give-back.ts';
export { type GroupLimits, groupQuotas } from './group-limits.ts';
export { dataOf, headerRoom, headersOf, type Payload, type TaskHeaders, withHeaders } from './headers.ts';
export type { Instant, Key, LeaseToken, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
export {
  DEFAULT_SETTINGS,
  decodeSettings,
  inOrder,
  type QueueSettings,
  type SettingsOperations,
  type SettingsRecord,
  settingsOf,
} from './queue-settings.ts';
export { Refusal, type RefusedItem, UpdateRefusal } from './refusal.ts';
export type {
  ListSchedulesCommand,
  PutScheduleCommand,
  PutScheduleOutcome,
  ScheduleEngine,
  SchedulePage,
  ScheduleView,
  TriggeredRun,
} from './schedules/schedule-commands.ts';
export {
  nextRun,
  nextRuns,
  ruleOf,
  runSearch,
  runsOfInterval,
  type ScheduleRule,
} from './schedules/schedule-rule.ts';
export {
  AVAILABLE,
  DEAD_LETTER_SUFFIX,
  DEFAULT_RETRY,
  dueSince,
  type Failure,
  givenIn,
  isLeased,
  isLeasedAt,
  leasedTextBytes,
  type Progress,
  type RetryPolicy,
  type TaskError,
  type TaskGiven,
  type TaskHistory,
  type TaskState,
  type Visibility,
} from './task.ts';
export { type TaskEnd, UNKNOWN_END } from './task-end.ts';
export {
  decodeSubscription,
  encodeSubscription,
  type HeaderFilter,
  type HeaderTest,
  type ShownSubscription,
  type Subscription,
  type SubscriptionKey,
  subscriptionMessage,
  type TopicOperations,
  testOf,
} from './topics.ts';
