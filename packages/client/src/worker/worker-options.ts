import { inspect } from 'node:util';
import type { ResourceLimits } from 'node:worker_threads';
import { limits } from '@taskmaster/proto';
import type { LeasedTask } from '../tasks/leased-task.ts';
import type { NewTask } from '../tasks/new-task.ts';
import type { ResultOptions } from '../tasks/task-result.ts';
import type { Codec } from '../values/codec.ts';
import { type Duration, durationMs, leaseDurationMs } from '../values/duration.ts';
import type { TaskCancelledError, TaskMasterError } from '../values/errors.ts';
import { inContext } from '../values/hooks.ts';
import { kindPatterns } from '../values/kinds.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { TelemetryOptions } from '../values/options.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';

/** What a handler may return. It takes effect together with the completion of the task, or not at all. */
export interface HandlerResult<R = unknown> {
  /**
   * The result of the task, for `queue.waitFor`: at most 64 KiB when it is encoded. `undefined` is a result, too, if the property
   * is given. Default: the task leaves none.
   */
  readonly result?: R;
  /** Tasks of the same group to enqueue. */
  readonly enqueue?: readonly NewTask[] | undefined;
}

/**
 * Works on one task. If it returns, the task is completed, with the result and the follow-up tasks that it returns. If it throws
 * or returns something else, the attempt fails, and the task keeps the error. After an `UnrecoverableError` the task goes to its
 * dead-letter queue at once. A handler may complete, release, snooze, discard or dead-letter the task itself; then it must return
 * nothing. Stop when `task.signal` is aborted: another worker may have the task.
 */
export type Handler<T, R = unknown> = (task: LeasedTask<T>) => Handled<R> | Promise<Handled<R>>;

/** What the tasks of one call of a batch handler have in common. */
export interface BatchCall {
  /** What `by` returned for these tasks. Undefined without `by`. */
  readonly key: string | undefined;
  /**
   * Aborted when the time of a stop is over, and when the signals of all tasks of the call that are not completed or released are
   * aborted. Each task has a signal of its own, too.
   */
  readonly signal: AbortSignal;
}

/**
 * How the attempt at one task of a batch ends: `undefined` or `null` completes the task, `{ result, enqueue }` completes it with
 * them, and an error fails the attempt as if the handler of a single task had thrown it.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: many lists are made by async functions that return nothing.
export type BatchOutcome = HandlerResult | Error | void | undefined | null;

/**
 * Works on several tasks in one call. If it returns nothing, all are completed. It may return a list with the outcome of each
 * task, in their order. If it throws, or returns something else, the attempts at all tasks fail. It may settle some tasks itself;
 * then their outcomes must be `undefined`.
 */
export type BatchHandler<T, R extends BatchHandled = BatchHandled> = (
  tasks: readonly LeasedTask<T>[],
  call: BatchCall,
) => R | Promise<R>;

/** Which tasks come together in one call of a handler. */
export interface BatchOptions<T = unknown> {
  /** Most tasks of a call, 1 to 10,000. */
  readonly max: number;
  /**
   * How long a task waits for others after it was leased, at most 10 minutes, and less than `maxLeaseTime`. Default 0: a call
   * gets the tasks that are there. A worker that may lease no more tasks waits no longer.
   */
  readonly maxWait?: Duration | undefined;
  /** Key of a task: only tasks with the same key come together. Default: all. If it throws, the attempt at the task fails. */
  readonly by?: ((task: LeasedTask<T>) => string) | undefined;
}

/**
 * Thrown by a handler, or by what it calls, when a retry cannot help. The task then goes to its dead-letter queue at once,
 * whatever its retry policy says.
 */
export class UnrecoverableError extends Error {
  override readonly name = 'UnrecoverableError';
}

/** How the results of a worker's handler are kept. */
export interface ResultSettings {
  /** How long the node keeps them, up to 30 days. Default 1 h. */
  readonly retention?: Duration | undefined;
  /** Default: JSON. */
  readonly codec?: Codec<unknown> | undefined;
}

// biome-ignore lint/suspicious/noConfusingVoidType: most handlers are async functions that return nothing.
type Handled<R = unknown> = void | undefined | HandlerResult<R>;
/** What a batch handler may return. */
// biome-ignore lint/suspicious/noConfusingVoidType: as above.
export type BatchHandled = void | undefined | readonly BatchOutcome[];

/** The delay after a failed attempt. `task.attempt` is the number of the attempt, from 1. */
export type BackoffFunction<T> = (error: unknown, task: LeasedTask<T>) => Duration | undefined;

export interface WorkerOptions<T = unknown> {
  /** Calls of the handler that run at the same time. Default 1. */
  readonly concurrency?: number | undefined;
  /**
   * Largest number of tasks leased in advance, and of tasks whose handlers have ended while their completions are on the way to
   * the disk. The worker leases no more than the work of about a tenth of a second, with `batch` in whole batches. Default:
   * `concurrency`, times `max` of the `batch`. 0: none, so that a handler starts when the completion before it is on disk.
   */
  readonly prefetch?: number | undefined;
  /**
   * How long leases last. The worker renews them after a third of this time. After a crash of the worker its tasks are available
   * when their leases end. Default: that of the queue's settings, or 30 s.
   */
  readonly leaseDuration?: Duration | undefined;
  /** Longest time for which the lease of a task is renewed. It bounds handlers that hang. Default 1 h. */
  readonly maxLeaseTime?: Duration | undefined;
  /** How long one lease request waits for tasks. Default 30 s. */
  readonly wait?: Duration | undefined;
  /** Only tasks with a PID up to this one, inclusive. Default: all. */
  readonly maxPid?: PidLike | undefined;
  /** The kinds of tasks that the handler can run; see `LeaseOptions`. Default: all tasks. */
  readonly kinds?: readonly string[] | undefined;
  /** Label of the worker, shown by `peek`. Default: the client's `workerLabel`. */
  readonly workerLabel?: string | undefined;
  /**
   * Spans and metrics of this worker: its leases, handlers and settlements. What its handler enqueues by itself goes by the
   * options of the client. Default: as those of the client.
   */
  readonly telemetry?: TelemetryOptions | false | undefined;
  /** How the results that the handler returns are kept. */
  readonly results?: ResultSettings | undefined;
  /**
   * Decides how long a task is hidden after a failed attempt. Without it, or if it returns undefined: the backoff of the task's
   * retry policy.
   */
  readonly backoff?: BackoffFunction<T> | undefined;
  /**
   * Limits of each thread, if the handler is the URL of a module, as `new Worker` of `node:worker_threads` takes them, for
   * example `{ maxOldGenerationSizeMb: 256 }`. A handler that exceeds them fails alone. Default: those of Node.
   */
  readonly resourceLimits?: ResourceLimits | undefined;
  /** Calls the handler with several tasks at once: see `BatchWorkerOptions`. Default: with one. */
  readonly batch?: undefined;
  /** Called when the handler of a task begins. Middleware has begun before. */
  readonly onTaskStarted?: ((task: LeasedTask<T>) => void) | undefined;
  /** Called after a task is completed. */
  readonly onTaskCompleted?: ((task: LeasedTask<T>, run: TaskRun) => void) | undefined;
  /**
   * Called with the task when its handler throws, its payload cannot be read, or its completion fails. After the time limit the
   * error is a `TimeLimitError`, whatever the handler throws. Called without a task when a lease request fails. `run` is
   * undefined if no handler has run.
   */
  readonly onAttemptFailed?:
    | ((error: unknown, task: LeasedTask<T> | undefined, run: TaskRun | undefined) => void)
    | undefined;
  /**
   * Called when a handler has thrown because its task was cancelled, before the task is removed. Other errors of cancelled tasks
   * count as this, too.
   */
  readonly onTaskCancelled?: ((task: LeasedTask<T>, error: TaskCancelledError) => void) | undefined;
  /**
   * Called when the lease of a task is lost or has expired while the worker has the task. Also when a stop has released the task
   * because its handler did not end (`CancelledError`).
   */
  readonly onLeaseLost?: ((task: LeasedTask<T>, error: TaskMasterError) => void) | undefined;
  /**
   * Called when the queues have no more task that the worker may lease now, also at the start. Handlers may still run. With this
   * hook or `onIdle` a worker that runs out of tasks sends one request more before it waits.
   */
  readonly onDrained?: (() => void) | undefined;
  /** Called when the worker has nothing to do: the queues are drained, and all tasks that it had have ended. */
  readonly onIdle?: (() => void) | undefined;
}

/** A call of a handler, as hooks get it. */
export interface TaskRun {
  /** How long the handler ran, in ms, with its middleware. With `batch`: the call for all its tasks. */
  readonly durationMs: number;
}

/** Options of a worker whose handler gets several tasks in one call. `Options` are those of a worker with single tasks. */
export type BatchWorkerOptions<T = unknown, Options = WorkerOptions<T>> = Omit<Options, 'batch'> & {
  readonly batch: BatchOptions<T>;
};

/** A handler of single tasks, or one of batches if the options have `batch`. */
export type AnyHandler<T> = Handler<T> | BatchHandler<T>;
export type AnyWorkerOptions<T> = WorkerOptions<T> | BatchWorkerOptions<T>;

export interface RunOptions {
  /** An abort stops the worker. */
  readonly signal?: AbortSignal | undefined;
  /** `timeout` of this stop. Default 30 s. */
  readonly stopTimeout?: Duration | undefined;
}

export const workerNames: OptionNames<WorkerOptions> = {
  concurrency: true,
  prefetch: true,
  leaseDuration: true,
  maxLeaseTime: true,
  wait: true,
  maxPid: true,
  kinds: true,
  workerLabel: true,
  telemetry: true,
  results: true,
  backoff: true,
  resourceLimits: true,
  batch: true,
  onTaskStarted: true,
  onTaskCompleted: true,
  onAttemptFailed: true,
  onTaskCancelled: true,
  onLeaseLost: true,
  onDrained: true,
  onIdle: true,
};
export const runNames: OptionNames<RunOptions> = { signal: true, stopTimeout: true };

/** Worker options with defaults. */
export interface WorkerSettings<T> {
  /** May change while the worker runs, and `prefetch` with it. */
  concurrency: number;
  prefetch: number;
  /** Undefined: a call of the handler gets one task. */
  readonly batch: BatchSettings<T> | undefined;
  readonly leaseDurationMs: number | undefined;
  readonly maxLeaseMs: number;
  readonly waitMs: number;
  readonly maxPid: Uint8Array | undefined;
  readonly kinds: readonly string[] | undefined;
  readonly workerLabel: string | undefined;
  readonly backoffOf: BackoffFunction<T> | undefined;
  readonly results: Omit<ResultOptions, 'result'>;
  /** The hooks, which run in the asynchronous context in which they were given. */
  readonly hooks: WorkerHooks<T>;
  /** The hooks as they were given, to be called in the context of a task. */
  readonly givenHooks: WorkerHooks<T>;
}

type WorkerHooks<T> = Pick<WorkerOptions<T>, Extract<keyof WorkerOptions<T>, `on${string}`>>;

interface BatchSettings<T> {
  readonly max: number;
  readonly maxWaitMs: number;
  readonly by: BatchOptions<T>['by'];
}

/** The options with defaults. @throws TypeError */
export function workerSettings<T>(options: AnyWorkerOptions<T>): WorkerSettings<T> {
  const concurrency = concurrencyOf(options.concurrency ?? 1);
  const maxLeaseMs = durationMs(options.maxLeaseTime ?? '1h', 'maxLeaseTime');
  const batch = options.batch === undefined ? undefined : batchSettings<T>(options.batch, maxLeaseMs);
  return {
    concurrency,
    prefetch: prefetchOf(options.prefetch, concurrency, batch),
    batch,
    leaseDurationMs:
      options.leaseDuration === undefined ? undefined : leaseDurationMs(options.leaseDuration, 'leaseDuration'),
    maxLeaseMs,
    waitMs: durationMs(options.wait ?? '30s', 'wait'),
    maxPid: options.maxPid === undefined ? undefined : pidBytes(options.maxPid),
    kinds: kindPatterns(options.kinds)?.patterns,
    workerLabel: options.workerLabel,
    results: resultSettings(options.results),
    backoffOf: inContext('backoff', options.backoff),
    hooks: {
      onTaskStarted: inContext('onTaskStarted', options.onTaskStarted),
      onTaskCompleted: inContext('onTaskCompleted', options.onTaskCompleted),
      onAttemptFailed: inContext('onAttemptFailed', options.onAttemptFailed),
      onLeaseLost: inContext('onLeaseLost', options.onLeaseLost),
      onTaskCancelled: inContext('onTaskCancelled', options.onTaskCancelled),
      onDrained: inContext('onDrained', options.onDrained),
      onIdle: inContext('onIdle', options.onIdle),
    },
    givenHooks: options,
  };
}

/** @throws TypeError */
export const concurrencyOf = (given: number): number => wholeNumber('concurrency', given, 1);

/** @throws TypeError */
export function prefetchOf(given: number | undefined, concurrency: number, batch: { max: number } | undefined): number {
  return wholeNumber('prefetch', given ?? concurrency * (batch?.max ?? 1), 0);
}

const batchNames: OptionNames<BatchOptions> = { max: true, maxWait: true, by: true };

function batchSettings<T>(given: BatchOptions<T>, maxLeaseMs: number): BatchSettings<T> {
  assertKnown('batch', given, batchNames);
  const max = wholeNumber('batch.max', given.max, 1, limits.leaseTasks);
  const maxWaitMs = durationMs(given.maxWait ?? 0, 'batch.maxWait');
  if (maxWaitMs > limits.waitMs) throw new TypeError(`batch.maxWait: ${maxWaitMs} ms is more than ${limits.waitMs} ms`);
  if (maxWaitMs >= maxLeaseMs) {
    throw new TypeError(`batch.maxWait: ${maxWaitMs} ms is not less than the maxLeaseTime of ${maxLeaseMs} ms`);
  }
  return { max, maxWaitMs, by: inContext('batch.by', given.by) };
}

const resultNames: OptionNames<ResultSettings> = { retention: true, codec: true };

function resultSettings(given: ResultSettings = {}): WorkerSettings<unknown>['results'] {
  assertKnown('results', given, resultNames);
  const { retention, codec } = given;
  if (retention !== undefined) durationMs(retention, 'results.retention');
  return { resultRetention: retention, resultCodec: codec };
}

function wholeNumber(name: string, value: number, least: number, most?: number): number {
  if (Number.isInteger(value) && value >= least && value <= (most ?? value)) return value;
  throw new TypeError(
    `${name}: ${typeof value === 'number' ? value : inspect(value)} is not a whole number from ${least}${most === undefined ? '' : ` to ${most}`}`,
  );
}
