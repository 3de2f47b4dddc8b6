import { limits } from '@taskmaster/proto';
import type { LeasedTask } from '../tasks/leased-task.ts';
import type { NewTask } from '../tasks/new-task.ts';
import { type Duration, durationMs, leaseMs } from '../values/duration.ts';
import type { TaskMasterError } from '../values/errors.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';

/** What a handler may return: tasks to be enqueued atomically with the completion of its own. */
export interface HandlerResult {
  readonly enqueue?: readonly NewTask[] | undefined;
}

/**
 * Works on one task. Returning completes the task, throwing fails the attempt. A handler may complete or release the
 * task itself; then its result must be void. Heed `task.signal`: somebody else may get the task once it is aborted.
 */
export type Handler<T> = (task: LeasedTask<T>) => Handled | Promise<Handled>;

// biome-ignore lint/suspicious/noConfusingVoidType: most handlers are async functions that return nothing.
type Handled = void | undefined | HandlerResult;

export interface WorkerOptions<T = unknown> {
  /** Tasks handled at once. A task counts until its completion is on disk. Default 1. */
  readonly concurrency?: number | undefined;
  /**
   * Most tasks leased beyond those being handled. They are leased ahead only as far as handlers are quick: about a tenth
   * of a second's worth. Default: `concurrency`; 0: never ahead.
   */
  readonly prefetch?: number | undefined;
  /** How long leases last; renewed when a third has passed. A crashed worker's tasks come back after this. Default 30 s. */
  readonly leaseDuration?: Duration | undefined;
  /** Longest time for which one task's lease is renewed, so that a handler that hangs is not kept for ever. Default 1 h. */
  readonly maxLeaseTime?: Duration | undefined;
  /** How long one request waits for tasks. Default 30 s. */
  readonly wait?: Duration | undefined;
  /** Only tasks with a PID up to this one, inclusive. Default: all. */
  readonly maxPid?: PidLike | undefined;
  /** What the worker calls itself. Default: the client's `workerLabel`. */
  readonly workerLabel?: string | undefined;
  /**
   * How long a task stays hidden after a failed attempt if it has no retry policy of its own: up to `initial` after the
   * first, doubling up to `max`, with full jitter. Default 1 s up to 5 min.
   */
  readonly backoff?: { readonly initial?: Duration | undefined; readonly max?: Duration | undefined } | undefined;
  /** Called after a task is completed. */
  readonly onTaskCompleted?: ((task: LeasedTask<T>) => void) | undefined;
  /**
   * Called when a handler throws, a payload cannot be read, or a completion fails (with the task), and when leasing fails
   * (without).
   */
  readonly onAttemptFailed?: ((error: unknown, task: LeasedTask<T> | undefined) => void) | undefined;
  /**
   * Called when a task in hand turns out to be somebody else's, its lease has run out, or a stop gave it back because its
   * handler did not end (`CancelledError`).
   */
  readonly onLeaseLost?: ((task: LeasedTask<T>, error: TaskMasterError) => void) | undefined;
}

export interface RunOptions {
  /** Stops the worker. */
  readonly signal?: AbortSignal | undefined;
  /** The `timeout` of that stop. Default 30 s. */
  readonly stopTimeout?: Duration | undefined;
}

/** Worker options, read and with defaults. */
export interface WorkerSettings<T> {
  readonly concurrency: number;
  readonly prefetch: number;
  readonly leaseMs: number;
  readonly maxLeaseMs: number;
  readonly waitMs: number;
  readonly maxPid: Uint8Array | undefined;
  readonly name: string | undefined;
  readonly backoffInitialMs: number;
  readonly backoffMaxMs: number;
  readonly hooks: Pick<WorkerOptions<T>, 'onTaskCompleted' | 'onAttemptFailed' | 'onLeaseLost'>;
}

/** @throws TypeError */
export function workerSettings<T>(options: WorkerOptions<T>): WorkerSettings<T> {
  const concurrency = wholeNumber('concurrency', options.concurrency ?? 1, 1);
  return {
    concurrency,
    prefetch: wholeNumber('prefetch', options.prefetch ?? concurrency, 0),
    leaseMs: leaseMs(options.leaseDuration ?? limits.defaultLeaseMs, 'leaseDuration'),
    maxLeaseMs: durationMs(options.maxLeaseTime ?? '1h', 'maxLeaseTime'),
    waitMs: durationMs(options.wait ?? '30s', 'wait'),
    maxPid: options.maxPid === undefined ? undefined : pidBytes(options.maxPid),
    name: options.workerLabel,
    backoffInitialMs: durationMs(options.backoff?.initial ?? '1s', 'backoff.initial'),
    backoffMaxMs: durationMs(options.backoff?.max ?? '5m', 'backoff.max'),
    hooks: options,
  };
}

function wholeNumber(name: string, value: number, least: number): number {
  if (Number.isInteger(value) && value >= least) return value;
  throw new TypeError(`${name}: ${value} is not a whole number from ${least}`);
}
