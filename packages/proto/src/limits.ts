/**
 * Limits that every node, proxy and client agrees on: the largest allowed value, unless a comment says otherwise. Times are in
 * ms, sizes in bytes. docs/reference/limits.md is generated from the comments.
 */
export const limits = {
  /** Group of a queue name, and the name within the group: each, in UTF-8. */
  nameBytes: 512,
  /** PID. The shortest has one byte. */
  pidBytes: 4096,
  /** Payload of one task, with its headers. A task fits into a message of 4 MiB, the default limit of gRPC in every language. */
  dataBytes: 3 * 1024 * 1024,
  /** Headers of one task. */
  headers: 32,
  /** Key of a header. */
  headerKeyBytes: 64,
  /** Keys and values of the headers of one task. */
  headersBytes: 4096,
  /** Request. */
  requestBytes: 4 * 1024 * 1024,
  /** Payload in one reply. */
  replyDataBytes: 3.5 * 1024 * 1024,
  /** Request id. */
  requestIdBytes: 64,
  /** Worker label. */
  workerLabelBytes: 256,
  /** Span of a caller, which has 55 bytes today. A call that waits keeps it. */
  traceparentBytes: 256,
  /** Regular expression. */
  regexBytes: 256,
  /** Instructions of a compiled regular expression: about one for each character, and more for repetitions such as `{1,100}`. */
  regexInstructions: 1_000,
  /** Items in one update, all kinds together. */
  updateItems: 10_000,
  /** PIDs that the node assigns in one update, together, if they have more than 16 bytes. */
  assignedPidBytes: 3 * 1024 * 1024,
  /** Tasks in one lease reply. */
  leaseTasks: 10_000,
  /** Queues named in one lease request. */
  leaseQueues: 1_000,
  /** Patterns of queues in one lease request. */
  leasePatterns: 16,
  /** Further queues named in one lease reply. */
  moreQueues: 100,
  /** Requests in one batch. */
  batchRequests: 1_000,
  /** Items in all updates of one batch. */
  batchItems: 100_000,
  /** Calls in one message of a stream. */
  streamCalls: 10_000,
  /** Items of updates, queues of leases and tasks of waits, in all calls of one message of a stream. */
  streamItems: 100_000,
  /** Tasks in one peek, PIDs and keys in one get. */
  peekTasks: 1_000,
  /** Queues in one reply of a listing or of statistics. */
  listQueues: 10_000,
  /** Lease duration if a request gives none. */
  defaultLeaseDurationMs: 30_000,
  /** Lease duration. */
  leaseDurationMs: 365 * 24 * 3600 * 1000,
  /** Time limit of the attempts at a task. */
  timeLimitMs: 365 * 24 * 3600 * 1000,
  /** Delay, and backoff. */
  delayMs: 10 * 365 * 24 * 3600 * 1000,
  /** Instant until which a task is hidden, in ms since 1970: the end of the year 9999. */
  runAtUnixMs: 253_402_300_799_999,
  /** Wait of a lease request, of a wait for tasks or of a read of events (long poll). */
  waitMs: 10 * 60 * 1000,
  /** Tasks in one wait for tasks. */
  awaitedTasks: 1_000,
  /** Kinds of events that one read names. */
  eventKinds: 32,
  /** Events in one reply. */
  readEvents: 1_000,
  /** Result of one task. */
  resultBytes: 64 * 1024,
  /** How long a result is kept. */
  resultRetentionMs: 30 * 24 * 3600 * 1000,
  /** How long a result is kept if a request does not say. */
  defaultResultRetentionMs: 3600 * 1000,
  /** Attempts that a retry policy allows. */
  maxAttempts: 1_000_000,
  /** Attempts of a task if neither the task nor the settings of its queue say otherwise. */
  defaultMaxAttempts: 20,
  /** Interruptions of a task by workers that stop or die. Further ones count as failed attempts. */
  interruptions: 100,
  /** Backoff after the first failed attempt, likewise. It doubles with each attempt. */
  defaultBackoffInitialMs: 1_000,
  /** Upper limit of the backoff if a policy names none. */
  defaultBackoffMaxMs: 3_600_000,
  /** Settings of queues, in one group. */
  queueSettings: 256,
  /** Pauses of queues, in one group. */
  queuePauses: 256,
  /** Duration of a pause. */
  pauseMs: 365 * 24 * 3600 * 1000,
  /** Reason for which queues are paused. */
  pauseReasonBytes: 256,
  /** Limit key of a task, and a pattern of such keys, in UTF-8. */
  limitKeyBytes: 128,
  /** Kind of a task, and a pattern of kinds, in UTF-8. */
  kindBytes: 128,
  /** Patterns of kinds in one lease request. */
  leaseKinds: 100,
  /** Kinds of the tasks of one queue, also of its dead-letter queue. Dead letters are taken beyond it. */
  queueKinds: 1_000,
  /** Kinds of a queue that its statistics show. */
  shownKinds: 20,
  /** Time without a lease request that accepts a kind after which its available tasks are unclaimed. */
  unclaimedMs: 5 * 60 * 1000,
  /** Limits that hold the tasks of a queue back, as its statistics show them. */
  heldBy: 8,
  /** Keys whose tasks a limit holds back, as a listing of limits shows them. */
  heldKeys: 20,
  /** Weights of limit keys, in the settings of some queues. */
  weights: 1_000,
  /** Weight of a limit key. */
  weight: 1_000_000,
  /** Tasks that settings allow to wait in a queue. */
  maxBacklog: 1_000_000_000,
  /** Limits of queues, in one group. */
  queueLimits: 256,
  /** Tasks that a limit allows to be leased at once. */
  maxLeased: 1_000_000,
  /** Tasks that a limit allows to be leased in its period, and at once after a time without leases. */
  rateTasks: 1_000_000,
  /** Period of a limit of the rate of leases. */
  ratePeriodMs: 24 * 3600 * 1000,
  /** Bulk runs of one group, with those that have ended. */
  bulkRuns: 100,
  /** Id of a bulk run. */
  bulkRunIdBytes: 64,
  /** Text in the filter of a bulk run. */
  bulkTextBytes: 256,
  /** Tasks that a bulk run changes per second. */
  bulkRate: 1_000_000,
  /** Age in the filter of a bulk run. */
  bulkAgeMs: 10 * 365 * 24 * 3600 * 1000,
  /** Tasks that one call of a preview of a bulk run looks at. */
  bulkPreviewTasks: 100_000,
  /** Tasks that a preview of a bulk run shows. */
  bulkPreviewSamples: 10,
  /** How long a bulk run is kept after its end. */
  bulkRunRetentionMs: 7 * 24 * 3600 * 1000,
  /** Key of a task, in UTF-8. */
  keyBytes: 256,
  /** Signals that one task waits for. */
  signals: 10_000,
  /** Parents of one task. */
  parents: 100,
  /** Names of queues, PIDs and keys of the parents of one task. */
  parentsBytes: 8 * 1024,
  /** Parents that hear of the ends of tasks in one update. */
  toldParents: 25_000,
  /** What a task keeps of its signals and the ends of its children, with their names and ids. */
  keptSignalsBytes: 256 * 1024,
  /** What of this comes with a lease. Above it, a lease says that it is left out, and GetTasks shows it. */
  leasedSignalsBytes: 64 * 1024,
  /** What signals of one update may write: all that a task keeps is written again, once. */
  signalRewriteBytes: 32 * 1024 * 1024,
  /** Id of a signal, in UTF-8. */
  signalIdBytes: 256,
  /** Data of one signal. */
  signalBytes: 64 * 1024,
  /** How long a signal is kept that comes before its task. */
  signalRetentionMs: 24 * 3600 * 1000,
  /** Order key of a task, in UTF-8. */
  orderKeyBytes: 256,
  /** Progress of a task. */
  progressBytes: 256,
  /** Checkpoint of a task. */
  checkpointBytes: 16 * 1024,
  /** Reason for which a task is cancelled. */
  cancelReasonBytes: 256,
  /** Message of the error of an attempt. The client truncates longer ones. */
  errorMessageBytes: 512,
  /** Details of the error of an attempt. The client truncates longer ones. */
  errorDetailsBytes: 2048,
  /** Tests in the filter of a subscription. */
  filterTests: 8,
  /** Values in one test of a filter. */
  filterValues: 32,
  /** Keys, values and prefixes of one filter. */
  filterBytes: 1024,
  /** Subscriptions of all topics of a group. */
  subscriptions: 1_000,
  /** Shortest time to live of a subscription. */
  minSubscriptionMs: 1_000,
  /** Time to live of a subscription. */
  subscriptionMs: 365 * 24 * 3600 * 1000,
  /** Filters that one update looks at: those of the subscriptions of a topic, for each task that is published to it. */
  filterLooks: 100_000,
  /** Payload that one update publishes, counted for each queue, and at most half of `engine.maxInFlightBytes` of the node. */
  publishedBytes: 16 * 1024 * 1024,
  /** Outcome of an update that publishes: names of queues and PIDs, counted for each task. */
  publishedOutcomeBytes: 3.5 * 1024 * 1024,
  /** Failures that a task keeps. */
  keptFailures: 5,
  /** Payload of the tasks of a schedule. */
  scheduleDataBytes: 64 * 1024,
  /** Beginning of the PIDs of a schedule. */
  schedulePidPrefixBytes: 512,
  /** Cron expression. */
  cronBytes: 256,
  /** Interval of a schedule. The shortest is 100 ms. */
  scheduleIntervalMs: 10 * 365 * 24 * 3600 * 1000,
  /** Shortest interval of a schedule. */
  minScheduleIntervalMs: 100,
  /** How late a run of a schedule may be that skips missed runs. */
  scheduleLatenessMs: 60 * 1000,
  /** Schedules of one group. */
  groupSchedules: 10_000,
  /** Schedules in one page of a listing. */
  listSchedules: 1_000,
  /** Next runs of one schedule in a listing. */
  listNextRuns: 100,
} as const;
