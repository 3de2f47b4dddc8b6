import { type Enqueue, EnqueueMode, formatQueueName, parseQueueName, type RetryPolicy } from '@taskmaster/proto';
import { type DataFormat, encodeData, jsonCodec } from '../values/codec.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';

/** What happens to a task whose lease expires or is released. */
export interface TaskRetryOptions {
  /** Leases granted before the task goes to the dead-letter queue. Default: no limit. */
  readonly maxAttempts?: number | undefined;
  /**
   * How long the task stays hidden after a failed attempt: up to `initial` after the first, doubling up to `max`
   * (default 1 h), with full jitter. Default: no backoff.
   */
  readonly backoff?: { readonly initial: Duration; readonly max?: Duration | undefined } | undefined;
  /** Where the task goes after its last attempt, in the same group. Default: the queue's name followed by `.dead`. */
  readonly deadLetterQueue?: string | undefined;
}

/** How a task is enqueued. */
export interface TaskOptions {
  /** Priority and identity; lowest first. Default: the node assigns one behind all others (FIFO). */
  readonly pid?: PidLike | undefined;
  /**
   * What happens when the PID is in the queue already: `collapse` into the existing task (default), `fail` with
   * `TaskExistsError`, or `replace` its data.
   */
  readonly mode?: 'collapse' | 'fail' | 'replace' | undefined;
  /** Keeps the task hidden for so long. Default: available at once. */
  readonly delay?: Duration | undefined;
  /** Default: after a failed attempt the task is available again at once, for ever. */
  readonly retry?: TaskRetryOptions | undefined;
}

/** Where a queue keeps the format of its data; not for callers of the library. */
export const FORMAT = Symbol('taskmaster.format');

/** A queue as calls name it: `Queue` is one. `T` is what comes out, `In` what goes in. */
export interface QueueRef<T = unknown, In = unknown> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly [FORMAT]: DataFormat<T, In>;
}

const NO_BYTES = new Uint8Array(0);
const NO_OPTIONS: TaskOptions = {};

const jsonFormat: DataFormat<unknown, unknown> = { codec: jsonCodec, schema: undefined };

/** A queue named by text alone holds JSON. */
export function queueRef(queue: string | QueueRef): QueueRef {
  return typeof queue === 'string' ? { name: canonicalName(queue), [FORMAT]: jsonFormat } : queue;
}

/** The one spelling of a queue's name, as nodes answer it. @throws TypeError when it is not text or is empty. */
export function canonicalName(name: string): string {
  if (typeof name !== 'string' || name === '') throw new TypeError('the name of a queue is text, and not empty');
  return formatQueueName(parseQueueName(name));
}

/** A task to be enqueued as a part of an update; made by `queue.task(...)`. Encoded and validated when it is sent. */
export class NewTask {
  /** The queue it goes to. */
  readonly queue: string;
  readonly #prepare: () => Enqueue | Promise<Enqueue>;

  constructor(queue: string, prepare: () => Enqueue | Promise<Enqueue>) {
    this.queue = queue;
    this.#prepare = prepare;
  }

  /** As the protocol says it. @throws InvalidDataError, TypeError. */
  prepare(): Enqueue | Promise<Enqueue> {
    return this.#prepare();
  }
}

export function newTask<T, In>(queue: QueueRef<T, In>, data: In, options: TaskOptions | undefined): NewTask {
  return new NewTask(queue.name, () => prepareEnqueue(queue, data, options));
}

/** A promise only when the queue's schema validates asynchronously. */
export function prepareEnqueue<T, In>(
  queue: QueueRef<T, In>,
  data: In,
  options: TaskOptions = NO_OPTIONS,
): Enqueue | Promise<Enqueue> {
  const bytes = encodeData(queue[FORMAT], data);
  const rest = {
    queue: queue.name,
    pid: options.pid === undefined ? NO_BYTES : pidBytes(options.pid),
    mode: modeOf(options.mode),
    delayMs: options.delay === undefined ? 0 : durationMs(options.delay, 'delay'),
    retry: options.retry === undefined ? undefined : retryPolicy(options.retry),
  };
  if (bytes instanceof Promise) return bytes.then((settled) => ({ ...rest, data: settled }));
  return { ...rest, data: bytes };
}

function modeOf(mode: TaskOptions['mode']): EnqueueMode {
  switch (mode) {
    case undefined:
    case 'collapse':
      return EnqueueMode.ENQUEUE_MODE_COLLAPSE;
    case 'fail':
      return EnqueueMode.ENQUEUE_MODE_FAIL;
    case 'replace':
      return EnqueueMode.ENQUEUE_MODE_REPLACE;
    default:
      throw new TypeError(`mode: '${mode satisfies never}' is not 'collapse', 'fail' or 'replace'`);
  }
}

function retryPolicy(options: TaskRetryOptions): RetryPolicy {
  const { maxAttempts, backoff, deadLetterQueue } = options;
  if (maxAttempts !== undefined && !(Number.isInteger(maxAttempts) && maxAttempts > 0)) {
    throw new TypeError(`retry.maxAttempts: ${maxAttempts} is not a whole number from 1`);
  }
  return {
    maxAttempts: maxAttempts ?? 0,
    backoffInitialMs: backoff === undefined ? 0 : durationMs(backoff.initial, 'retry.backoff.initial'),
    backoffMaxMs: backoff?.max === undefined ? 0 : durationMs(backoff.max, 'retry.backoff.max'),
    deadLetterQueue: deadLetterQueue === undefined ? '' : canonicalName(deadLetterQueue),
  };
}
