import {
  type Enqueue,
  EnqueueMode,
  type GetTasksRequest,
  type LeaseTasksRequest,
  type Release,
  type UpdateTasksRequest,
} from '@taskmaster/proto';

/** No limit and no backoff. */
const AT_ONCE = { maxAttempts: 0, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
/** The queue of the requests. */
export const QUEUE = 'shop#mail';
export const bytes = (text: string): Uint8Array => Buffer.from(text);
export const text = (data: Uint8Array | undefined): string => Buffer.from(data ?? []).toString();

export const update = (change: Partial<UpdateTasksRequest>): UpdateTasksRequest => ({
  enqueue: [],
  dequeue: [],
  renew: [],
  release: [],
  requestId: bytes(''),
  parts: [],
  ...change,
});
export const enqueue = (pid: string, change: Partial<Enqueue> = {}): UpdateTasksRequest =>
  update({
    enqueue: [
      {
        queue: QUEUE,
        pid: bytes(pid),
        data: bytes(`data of ${pid}`),
        mode: EnqueueMode.ENQUEUE_MODE_UNSPECIFIED,
        delayMs: 0,
        runAtUnixMs: 0,
        headers: {},
        retry: AT_ONCE,
        key: '',
        timeLimitMs: 0,
        limitKey: '',
        topic: '',
        ...change,
      },
    ],
  });
export const dequeue = (pid: string, leaseToken: number): UpdateTasksRequest =>
  update({ dequeue: [{ queue: QUEUE, pid: bytes(pid), leaseToken, requeue: false }] });
export const release = (pid: string, leaseToken = 0, change: Partial<Release> = {}): UpdateTasksRequest => {
  const end = { delayMs: undefined, refundAttempt: false, error: undefined, deadLetter: false };
  const at = { runAtUnixMs: 0, waiting: false, interrupted: false };
  return update({ release: [{ queue: QUEUE, pid: bytes(pid), leaseToken, ...end, ...at, ...change }] });
};
export const get = (pid: string, includeData = true): GetTasksRequest => ({
  queue: QUEUE,
  pids: [bytes(pid)],
  keys: [],
  includeData,
});
export const lease = (waitMs = 0): LeaseTasksRequest => ({
  queues: [QUEUE],
  maxTasks: 10,
  leaseDurationMs: 30_000,
  maxPid: bytes(''),
  anyOrder: false,
  patterns: [],
  maxMoreQueues: 0,
  waitMs,
  workerLabel: 'w',
  maxBytes: 0,
});
