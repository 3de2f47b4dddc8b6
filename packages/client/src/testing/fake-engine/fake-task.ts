import {
  type Enqueue,
  limits,
  type RetryPolicy,
  type TaskError,
  type TaskFailure,
  type TaskInfo,
} from '@taskmaster/proto';

/** A task of the fake engine. Times are in ms. */
export interface FakeTask {
  readonly pid: Buffer;
  data: Uint8Array;
  readonly enqueuedAt: number;
  readonly retry: RetryPolicy | undefined;
  attempts: number;
  failures: readonly TaskFailure[];
  /** Where it was before it came to a dead-letter queue. */
  readonly origin: { readonly queue: string; readonly retry: RetryPolicy | undefined } | undefined;
  token: number;
  /** 0: the task is available. */
  hiddenUntil: number;
  worker: string | undefined;
}

export const newFakeTask = (pid: Buffer, { data, delayMs, runAtUnixMs, retry }: Enqueue, now: number): FakeTask => ({
  pid,
  data: Buffer.from(data),
  enqueuedAt: now,
  retry,
  attempts: 0,
  failures: [],
  origin: undefined,
  token: 0,
  hiddenUntil: runAtUnixMs > 0 ? runAtUnixMs : delayMs === 0 ? 0 : now + delayMs,
  worker: undefined,
});

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
  };
}
