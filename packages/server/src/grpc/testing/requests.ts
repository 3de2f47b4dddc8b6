import {
  BulkAction,
  type BulkFilter,
  type BulkSpec,
  BulkTasks,
  type Dequeue,
  type Enqueue,
  EnqueueMode,
  type GetQueueStatsRequest,
  type GetTasksRequest,
  type LeaseTasksRequest,
  type ListQueuesRequest,
  type ListSchedulesRequest,
  MissedRuns,
  PeekKind,
  type PeekTasksRequest,
  type QueueFilter,
  type Release,
  type Renew,
  type RetryPolicy,
  type ScheduleSpec,
  type UpdateTasksRequest,
  type WaitForTasksRequest,
} from '@taskmaster/proto';

// Valid requests. Tests change one field of them.

export const bytes = (text: string): Uint8Array => Buffer.from(text);

export const anEnqueue = (change: Partial<Enqueue> = {}): Enqueue => ({
  queue: 'shop#mail',
  pid: bytes('a'),
  data: bytes('data'),
  mode: EnqueueMode.ENQUEUE_MODE_UNSPECIFIED,
  delayMs: 0,
  runAtUnixMs: 0,
  retry: undefined,
  headers: {},
  key: '',
  timeLimitMs: 0,
  limitKey: '',
  topic: '',
  ...change,
});

export const aRetry = (change: Partial<RetryPolicy> = {}): RetryPolicy => ({
  maxAttempts: 3,
  backoffInitialMs: 1_000,
  backoffMaxMs: 60_000,
  deadLetterQueue: '',
  ...change,
});

const aTask = { queue: 'shop#mail', pid: bytes('a'), leaseToken: 7 };

export const aDequeue = (change: Partial<Dequeue> = {}): Dequeue => ({ ...aTask, requeue: false, ...change });

export const aRenew = (change: Partial<Renew> = {}): Renew => ({
  ...aTask,
  leaseDurationMs: 30_000,
  progress: undefined,
  ...change,
});

export const aRelease = (change: Partial<Release> = {}): Release => ({
  ...aTask,
  delayMs: undefined,
  refundAttempt: false,
  error: undefined,
  deadLetter: false,
  runAtUnixMs: 0,
  waiting: false,
  interrupted: false,
  ...change,
});

export const anUpdate = (change: Partial<UpdateTasksRequest> = {}): UpdateTasksRequest => ({
  enqueue: [],
  dequeue: [],
  renew: [],
  release: [],
  requestId: bytes(''),
  parts: [],
  ...change,
});

export const aLease = (change: Partial<LeaseTasksRequest> = {}): LeaseTasksRequest => ({
  queues: ['shop#mail'],
  maxTasks: 10,
  leaseDurationMs: 30_000,
  maxPid: bytes(''),
  waitMs: 0,
  workerLabel: 'w1',
  maxBytes: 0,
  anyOrder: false,
  patterns: [],
  maxMoreQueues: 0,
  ...change,
});

export const aWait = (change: Partial<WaitForTasksRequest> = {}): WaitForTasksRequest => ({
  tasks: [{ queue: 'shop#mail', pid: bytes('a') }],
  waitMs: 0,
  ...change,
});

export const aPeek = (change: Partial<PeekTasksRequest> = {}): PeekTasksRequest => ({
  queue: 'shop#mail',
  kind: PeekKind.PEEK_KIND_HEAD,
  limit: 10,
  includeData: false,
  afterPid: bytes(''),
  ...change,
});

export const aGet = (change: Partial<GetTasksRequest> = {}): GetTasksRequest => ({
  queue: 'shop#mail',
  pids: [bytes('a')],
  keys: [],
  includeData: false,
  ...change,
});

export const aFilter = (change: Partial<QueueFilter> = {}): QueueFilter => ({ nameRegex: '', ...change });

export const aList = (change: Partial<ListQueuesRequest> = {}): ListQueuesRequest => ({
  filter: undefined,
  limit: 0,
  pageToken: '',
  ...change,
});

export const someStats = (change: Partial<GetQueueStatsRequest> = {}): GetQueueStatsRequest => ({
  queues: [],
  filter: undefined,
  ...change,
});

export const aSchedule = (change: Partial<ScheduleSpec> = {}): ScheduleSpec => ({
  queue: 'shop#mail',
  data: bytes('data'),
  retry: undefined,
  cron: '',
  timeZone: '',
  intervalMs: 60_000,
  missedRuns: MissedRuns.MISSED_RUNS_UNSPECIFIED,
  skipWhileRunning: false,
  pidPrefix: bytes(''),
  headers: {},
  timeLimitMs: 0,
  limitKey: '',
  ...change,
});

export const aBulkFilter = (change: Partial<BulkFilter> = {}): BulkFilter => ({
  tasks: BulkTasks.BULK_TASKS_UNSPECIFIED,
  minAgeMs: 0,
  maxAgeMs: 0,
  errorContains: '',
  headers: undefined,
  keyPrefix: '',
  ...change,
});

export const aBulkSpec = (change: Partial<BulkSpec> = {}): BulkSpec => ({
  action: BulkAction.BULK_ACTION_DELETE,
  filter: undefined,
  target: '',
  cancelReason: '',
  delayMs: 0,
  runAtUnixMs: 0,
  rate: 0,
  maxTasks: 0,
  ...change,
});

export const someSchedules = (change: Partial<ListSchedulesRequest> = {}): ListSchedulesRequest => ({
  schedule: '',
  group: 'shop',
  nextRuns: 1,
  limit: 0,
  pageToken: '',
  ...change,
});
