import {
  type Enqueue,
  EnqueueMode,
  EnqueueResult,
  type LeasedTask,
  limits,
  PeekKind,
  type QueueStats,
  type Renew,
  type RenewOutcome,
  type RetryPolicy,
  type TaskError,
  type TaskFailure,
  type TaskInfo,
  TaskState,
} from '@taskmaster/proto';

/** State of tasks for each kind of peek, except available tasks. */
export const PEEKED: { readonly [kind: number]: TaskState } = {
  [PeekKind.PEEK_KIND_LEASED]: TaskState.TASK_STATE_LEASED,
  [PeekKind.PEEK_KIND_DELAYED]: TaskState.TASK_STATE_DELAYED,
};

/** A task of the fake engine. Times are in ms. */
export interface FakeTask {
  readonly pid: Buffer;
  readonly key: string;
  data: Uint8Array;
  headers: Readonly<Record<string, string>>;
  readonly enqueuedAt: number;
  readonly retry: RetryPolicy | undefined;
  /** 0: there is none. */
  readonly timeLimitMs: number;
  attempts: number;
  failures: readonly TaskFailure[];
  progress: { readonly at: number; readonly text: string };
  cancelled: { readonly at: number; readonly reason: string } | undefined;
  /** Where it was before it came to a dead-letter queue. */
  readonly origin: { readonly queue: string; readonly retry: RetryPolicy | undefined } | undefined;
  token: number;
  /** It was enqueued again since its latest lease began. */
  rerun: boolean;
  /** 0: the task is available. */
  hiddenUntil: number;
  /** When the latest lease began. */
  leasedAt: number;
  worker: string | undefined;
}

export const newFakeTask = (
  pid: Buffer,
  { key, data, headers, delayMs, runAtUnixMs, retry, timeLimitMs }: Enqueue,
  now: number,
): FakeTask => ({
  pid,
  key,
  data: Buffer.from(data),
  headers: { ...headers },
  enqueuedAt: now,
  retry,
  timeLimitMs,
  attempts: 0,
  failures: [],
  progress: { at: 0, text: '' },
  cancelled: undefined,
  origin: undefined,
  token: 0,
  rerun: false,
  hiddenUntil: runAtUnixMs > 0 ? runAtUnixMs : delayMs === 0 ? 0 : now + delayMs,
  leasedAt: 0,
  worker: undefined,
});

export const isRerun = ({ mode }: Enqueue): boolean =>
  mode === EnqueueMode.ENQUEUE_MODE_RERUN || mode === EnqueueMode.ENQUEUE_MODE_RERUN_FIRST;

/** Enqueues an existing task again, so that it runs after the lease that it has or had. */
export function rerun(task: FakeTask, item: Enqueue, leased: boolean): EnqueueResult {
  const isLatest = item.mode === EnqueueMode.ENQUEUE_MODE_RERUN;
  if (isLatest || (leased && !task.rerun)) replacePayload(task, item);
  task.rerun ||= task.token > 0;
  if (leased) return EnqueueResult.ENQUEUE_RESULT_RERUN;
  return isLatest ? EnqueueResult.ENQUEUE_RESULT_REPLACED : EnqueueResult.ENQUEUE_RESULT_COLLAPSED;
}

export function replacePayload(task: FakeTask, { data, headers }: Enqueue): void {
  task.data = Buffer.from(data);
  task.headers = { ...headers };
}

/** A leased task, as its worker gets it. */
export function leasedOf(queue: string, task: FakeTask): LeasedTask {
  return {
    queue,
    patternId: 0,
    pid: task.pid,
    data: Buffer.from(task.data),
    leaseToken: task.token,
    leaseUntilUnixMs: Math.round(task.hiddenUntil),
    attempt: task.attempts,
    enqueuedUnixMs: Math.round(task.enqueuedAt),
    maxAttempts: task.retry?.maxAttempts,
    leaseDurationMs: 0,
    timeLimitMs: task.timeLimitMs,
    key: task.key,
    progress: task.progress.text,
    headers: { ...task.headers },
  };
}

/** When a lease ends that lasts this long from now on. */
export function leaseEnd({ leasedAt, timeLimitMs }: FakeTask, leaseDurationMs: number, now: number): number {
  const end = now + (leaseDurationMs || limits.defaultLeaseDurationMs);
  return timeLimitMs === 0 ? end : Math.min(end, leasedAt + timeLimitMs);
}

/** Renews the lease of a task, and says whether the task was cancelled. */
export function renewed(task: FakeTask | undefined, item: Renew, now: number): RenewOutcome {
  const { leaseDurationMs, progress } = item;
  const until = task === undefined ? now : leaseEnd(task, leaseDurationMs, now);
  if (task !== undefined) task.hiddenUntil = until;
  if (task !== undefined && progress !== undefined) task.progress = { at: progress === '' ? 0 : now, text: progress };
  return { leaseUntilUnixMs: Math.round(until), cancelReason: task?.cancelled?.reason };
}

/** Keeps the error of a failed attempt. */
export function addFailure(task: FakeTask, error: TaskError, now: number): void {
  const failure = { failedUnixMs: Math.round(now), attempt: task.attempts, workerLabel: task.worker ?? '', error };
  task.failures = [...task.failures, failure].slice(-limits.keptFailures);
}

/** What a peek or get shows of a task, or of its absence. */
export function infoOf(
  task: FakeTask | undefined,
  named: Pick<TaskInfo, 'queue' | 'pid' | 'state'>,
  includeData: boolean,
): TaskInfo {
  return {
    ...named,
    data: includeData && task !== undefined ? Buffer.from(task.data) : Buffer.alloc(0),
    attempts: task?.attempts ?? 0,
    enqueuedUnixMs: Math.round(task?.enqueuedAt ?? 0),
    hiddenUntilUnixMs: Math.round(task?.hiddenUntil ?? 0),
    leaseToken: task?.token ?? 0,
    workerAddress: '',
    workerLabel: task?.worker ?? '',
    leasedUnixMs: 0,
    retry: task?.retry,
    failures: [...(task?.failures ?? [])],
    deadLetterFrom: task?.origin?.queue ?? '',
    progress: task?.progress.text ?? '',
    progressUnixMs: Math.round(task?.progress.at ?? 0),
    cancelReason: task?.cancelled?.reason,
    cancelledUnixMs: Math.round(task?.cancelled?.at ?? 0),
    headers: includeData ? { ...task?.headers } : {},
    key: task?.key ?? '',
    timeLimitMs: task?.timeLimitMs ?? 0,
  };
}

/** Half of the longest backoff of the task's policy, or of the default policy. */
export function backoffMs({ attempts, retry }: FakeTask): number {
  const { defaultBackoffInitialMs, defaultBackoffMaxMs } = limits;
  const initialMs = retry?.backoffInitialMs ?? defaultBackoffInitialMs;
  const bound = Math.min(retry?.backoffMaxMs || defaultBackoffMaxMs, initialMs * 2 ** Math.max(0, attempts - 1));
  return bound / 2;
}

/** The statistics of a queue with tasks in these states. */
export function statsOf(queue: string, states: readonly TaskState[], completed: number): QueueStats {
  const count = (state: TaskState): number => states.filter((one) => one === state).length;
  return {
    queue,
    available: count(TaskState.TASK_STATE_AVAILABLE),
    leased: count(TaskState.TASK_STATE_LEASED),
    delayed: count(TaskState.TASK_STATE_DELAYED),
    completed,
    enqueueRate: 0,
    leaseRate: 0,
    completeRate: 0,
    meanLeaseMs: 0,
    oldestAgeMs: 0,
  };
}

/** The key of a task in the map of its queue. */
export const keyOf = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');

/** An enqueue of a task with a key that has another PID. */
export function reorder(
  queue: Map<string, FakeTask>,
  task: FakeTask,
  item: Pick<Enqueue, 'pid' | 'mode' | 'data'>,
  now: number,
): { pid: Buffer; result: EnqueueResult; leased: boolean } {
  const leased = task.worker !== undefined && task.hiddenUntil > now;
  const isLatest = [EnqueueMode.ENQUEUE_MODE_REPLACE, EnqueueMode.ENQUEUE_MODE_RERUN].some((one) => one === item.mode);
  if (!isLatest || leased) return { pid: task.pid, result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased };
  queue.delete(keyOf(task.pid));
  const pid = Buffer.from(item.pid);
  queue.set(keyOf(pid), { ...task, pid, data: Buffer.from(item.data) });
  return { pid, result: EnqueueResult.ENQUEUE_RESULT_REPLACED, leased };
}
