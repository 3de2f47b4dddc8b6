import {
  type Enqueue,
  EnqueueMode,
  formatQueueName,
  limits,
  NO_ENTRIES,
  parseQueueName,
  type RetryPolicy,
} from '@taskmaster/proto';
import { type DataFormat, encodeData, jsonCodec, type ResultFormat } from '../values/codec.ts';
import { type Duration, dateMs, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';
import { backoffNames } from '../values/retry.ts';
import { someText } from '../values/some-text.ts';
import { addGiven, type GivenOptions, givenNames } from './given-fields.ts';
import { type LinkOptions, linkNames, linksMessage } from './links.ts';

/** What happens to a task whose lease expires or is released. */
export interface TaskRetryOptions {
  /** Attempts before the task goes to the dead-letter queue. `Infinity`: no limit. Default 20. */
  readonly maxAttempts?: number | undefined;
  /**
   * How long the task is hidden after a failed attempt: up to `initial` (default 1 s) after the first attempt, doubling up to
   * `max` (default 1 h), with full jitter. `initial: 0`: not at all.
   */
  readonly backoff?: { readonly initial?: Duration | undefined; readonly max?: Duration | undefined } | undefined;
  /**
   * Queue of the same group for the task after its last attempt. Default: that of the queue's settings, or the queue's name
   * followed by `.dead`.
   */
  readonly deadLetterQueue?: string | undefined;
}

/** Texts by key, beside the data of a task. */
export type TaskHeaders = Readonly<Record<string, string>>;

/** How a task is enqueued. */
export interface TaskOptions extends GivenOptions, LinkOptions {
  /** Priority and identity of the task, lowest first. Default: the node assigns a PID behind all others (FIFO). */
  readonly pid?: PidLike | undefined;
  /**
   * Identity of the task within its queue, apart from its PID: 1 to 256 bytes of UTF-8. The PID is only its order then, and
   * `mode` says what happens if a task with this key is in the queue already. Default: the PID is the identity.
   */
  readonly key?: string | undefined;
  /**
   * If the PID is already in the queue: `collapse` into the existing task, `fail` with `TaskExistsError`, or `replace` its
   * data. `rerun` also replaces the data, but a task that a worker has leased then runs once more with the latest
   * data when this run is over. `rerun-first` likewise, with the data of the first enqueue. Default: as the queue's settings say,
   * or `collapse`.
   */
  readonly mode?: 'collapse' | 'fail' | 'replace' | 'rerun' | 'rerun-first' | undefined;
  /** How long the task is hidden. Default: not at all. */
  readonly delay?: Duration | undefined;
  /** Until when the task is hidden, by the node's clock, instead of `delay`. A past date means now. */
  readonly runAt?: Date | undefined;
  /** As `startWithin`, but a date, by the node's clock. With a past date the task ends at once. */
  readonly startBy?: Date | undefined;
  /**
   * What the data says about itself, for programs that need not understand the data: at most 32 texts by key, 4 KiB in all. They
   * belong to the data: what replaces the data replaces them. Keys have letters, digits, `.`, `_` and `-`. Default: none.
   */
  readonly headers?: TaskHeaders | undefined;
  /** What happens after a failed attempt. Default: as the queue's settings say, or the defaults of `TaskRetryOptions`. */
  readonly retry?: TaskRetryOptions | undefined;
}

export const taskNames: OptionNames<TaskOptions> = {
  pid: true,
  key: true,
  mode: true,
  delay: true,
  runAt: true,
  startBy: true,
  headers: true,
  retry: true,
  ...givenNames,
  ...linkNames,
};
const taskRetryNames: OptionNames<TaskRetryOptions> = { maxAttempts: true, backoff: true, deadLetterQueue: true };

/** Internal: key of the data format of a queue. */
export const FORMAT = Symbol('taskmaster.format');

/** Options that tasks of a queue have if an enqueue does not say otherwise. */
export type TaskDefaults = Omit<TaskOptions, 'pid' | 'key' | 'kind' | 'runAt' | 'startBy' | 'parent'>;

/** How the tasks of a queue are made and read. */
export interface QueueFormat<T, In, R = unknown, RIn = unknown> extends DataFormat<T, In>, ResultFormat<R, RIn> {
  /** The kind of all tasks that are enqueued, leased and peeked at. Undefined: any. */
  readonly kind?: string | undefined;
  /** The kind among them. */
  readonly defaults?: TaskOptions | undefined;
}

/**
 * A queue as an argument of calls, such as a `Queue`. `T` is the type of data read, `In` of data to enqueue, `R` and `RIn`
 * likewise of results.
 */
export interface QueueRef<T = unknown, In = unknown, R = unknown, RIn = unknown> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly [FORMAT]: QueueFormat<T, In, R, RIn>;
}

/** Internal: key of the data format of a topic. It is not that of a queue, so that no topic is taken for a queue. */
export const TOPIC_FORMAT = Symbol('taskmaster.topic-format');

/** A topic as an argument of calls, such as a `Topic`. */
export interface TopicRef<T = unknown, In = unknown> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly [TOPIC_FORMAT]: QueueFormat<T, In>;
}

const NO_BYTES = new Uint8Array(0);
const NO_OPTIONS: TaskOptions = {};

const jsonFormat: QueueFormat<unknown, unknown> = { codec: jsonCodec, schema: undefined };

/** The queue of an argument. A queue that is given by name has JSON data. @throws TypeError if it is something else. */
export function queueRef(queue: string | QueueRef): QueueRef {
  if (typeof queue === 'object' && queue !== null && FORMAT in queue) return queue;
  return { name: canonicalName(queue), [FORMAT]: jsonFormat };
}

/** The name as nodes write it. @throws TypeError if the name is not text or is empty. */
export function canonicalName(name: unknown): string {
  if (typeof name !== 'string' || name === '')
    throw new TypeError('the name of a queue must be text and must not be empty');
  return formatQueueName(parseQueueName(name));
}

/**
 * A pattern of queues, `group#pattern`, as nodes write it. Nodes take a `*` before the `#` for a part of the group's name, but
 * the author probably means all groups, and would believe that they are all paused, for example.
 * @throws TypeError
 */
export function queuesPattern(queues: unknown): string {
  const full = canonicalName(queues);
  if (!parseQueueName(full).group.includes('*')) return full;
  throw new TypeError(`'${full}' has a * before the #: a pattern chooses queues of one group`);
}

/**
 * The name of a queue that will hold tasks. Nodes take a second `#` for a part of the name, but the author probably means a group
 * in a group, and there is none. So such queues can be read and emptied, but not filled.
 * @throws TypeError
 */
export function nameToFill(name: unknown): string {
  const full = canonicalName(name);
  assertOneSeparator(full);
  return full;
}

function assertOneSeparator(full: string): void {
  if (full.indexOf('#') === full.lastIndexOf('#')) return;
  throw new TypeError(`'${full}' has more than one #: a queue is named group#name, and groups have no groups in them`);
}

/** A task to enqueue with other changes. `queue.task(...)` makes one. Its data is encoded and validated when it is sent. */
export class NewTask {
  /** Name of the queue or, if it is published, of the topic. */
  readonly queue: string;
  readonly #prepare: () => Enqueue | Promise<Enqueue>;

  constructor(queue: string, prepare: () => Enqueue | Promise<Enqueue>) {
    this.queue = queue;
    this.#prepare = prepare;
  }

  /** The message of the protocol. @throws InvalidDataError, TypeError. */
  prepare(): Enqueue | Promise<Enqueue> {
    return this.#prepare();
  }
}

export function newTask<T, In>(queue: QueueRef<T, In>, data: In, options: TaskOptions | undefined): NewTask {
  return new NewTask(queue.name, () => prepareEnqueue(queue, data, options));
}

/** As `newTask`: it is published to the topic. */
export function newPublication<T, In>(topic: TopicRef<T, In>, data: In, options: TaskOptions | undefined): NewTask {
  return new NewTask(topic.name, () => preparePublication(topic, data, options));
}

/** As `prepareEnqueue`, for a topic. */
export function preparePublication<T, In>(
  topic: TopicRef<T, In>,
  data: In,
  options?: TaskOptions,
): Enqueue | Promise<Enqueue> {
  const prepared = prepareEnqueue({ name: topic.name, [FORMAT]: topic[TOPIC_FORMAT] }, data, options);
  const published = (item: Enqueue): Enqueue => ({ ...item, queue: '', topic: topic.name });
  return prepared instanceof Promise ? prepared.then(published) : published(prepared);
}

/** Encodes and validates a task. Returns a promise only if the queue's schema validates asynchronously. */
export function prepareEnqueue<T, In>(
  queue: QueueRef<T, In>,
  data: In,
  given: TaskOptions = NO_OPTIONS,
): Enqueue | Promise<Enqueue> {
  assertOneSeparator(queue.name);
  const format = queue[FORMAT];
  const bytes = encodeData(format, data);
  const options = format.defaults === undefined ? given : withDefaults(format.defaults, given);
  const { delayMs, runAtUnixMs } = hiding(options);
  const plain = {
    queue: queue.name,
    topic: '',
    pid: options.pid === undefined ? NO_BYTES : pidBytes(options.pid),
    data: NO_BYTES as Uint8Array,
    mode: modeOf(options.mode),
    delayMs,
    runAtUnixMs,
    startByUnixMs: options.startBy === undefined ? undefined : startByUnixMs(options.startBy, options),
    retry: options.retry === undefined ? undefined : retryPolicy(options.retry),
    key: someText('key', options.key),
    headers: options.headers === undefined ? NO_ENTRIES : headersOf(options.headers),
    links: hasLinks(options) ? linksMessage(options, nameOf) : undefined,
  };
  const item: Enqueue = addGiven(plain, options);
  if (bytes instanceof Promise) return bytes.then((settled) => ({ ...item, data: settled }));
  item.data = bytes;
  return item;
}

/** An instant that is given goes before a duration by default. */
function withDefaults(defaults: TaskOptions, given: TaskOptions): TaskOptions {
  const { runAt, startBy } = given;
  const delay = given.delay ?? (runAt === undefined ? defaults.delay : undefined);
  const startWithin = given.startWithin ?? (startBy === undefined ? defaults.startWithin : undefined);
  return { ...defaults, ...definedIn(given), delay, startWithin };
}

/** The options without those that are given as undefined. */
export function definedIn<Options extends object>(options: Options): Partial<Options> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<Options>;
}

const hasLinks = ({ waitsFor, parent, orderKey }: TaskOptions): boolean =>
  waitsFor !== undefined || parent !== undefined || orderKey !== undefined;

const nameOf = (queue: string | { readonly name: string }): string =>
  typeof queue === 'string' ? canonicalName(queue) : queue.name;

/** @throws TypeError if it is no date, or `startWithin` is given, too. */
function startByUnixMs(startBy: Date, { startWithin }: TaskOptions): number {
  if (startWithin !== undefined) throw new TypeError('startWithin, startBy: give one of them');
  return dateMs(startBy, 'startBy');
}

/** How long a task is hidden, for the protocol. @throws TypeError if both options are given, or one is wrong. */
export function hiding({ delay, runAt }: Pick<TaskOptions, 'delay' | 'runAt'>): {
  delayMs: number;
  runAtUnixMs: number;
} {
  if (delay !== undefined && runAt !== undefined) throw new TypeError('delay, runAt: give one of them');
  return {
    delayMs: delay === undefined ? 0 : durationMs(delay, 'delay'),
    runAtUnixMs: runAt === undefined ? 0 : dateMs(runAt, 'runAt'),
  };
}

/** @throws TypeError if it is no object, or a value is not text. The node checks the rest. */
export function headersOf(headers: TaskHeaders): Record<string, string> {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    throw new TypeError('headers: must be an object with texts');
  for (const [key, value] of Object.entries(headers)) {
    if (typeof value !== 'string') throw new TypeError(`headers: the value of ${key} is not text`);
    // UTF-8 has none, so that the receiver would get another text.
    if (!value.isWellFormed())
      throw new TypeError(`headers: the value of ${key} has a lone surrogate (half of a character)`);
  }
  return { ...headers };
}

export function modeOf(mode: TaskOptions['mode']): EnqueueMode {
  switch (mode) {
    case undefined:
      return EnqueueMode.ENQUEUE_MODE_UNSPECIFIED;
    case 'collapse':
      return EnqueueMode.ENQUEUE_MODE_COLLAPSE;
    case 'fail':
      return EnqueueMode.ENQUEUE_MODE_FAIL;
    case 'replace':
      return EnqueueMode.ENQUEUE_MODE_REPLACE;
    case 'rerun':
      return EnqueueMode.ENQUEUE_MODE_RERUN;
    case 'rerun-first':
      return EnqueueMode.ENQUEUE_MODE_RERUN_FIRST;
    default:
      throw new TypeError(
        `mode: '${mode satisfies never}' is not 'collapse', 'fail', 'replace', 'rerun' or 'rerun-first'`,
      );
  }
}

/** The policy of the options, for the protocol. @throws TypeError */
export function retryPolicy(options: TaskRetryOptions): RetryPolicy {
  assertKnown('retry', options, taskRetryNames);
  const { maxAttempts, backoff, deadLetterQueue } = options;
  assertKnown('retry.backoff', backoff, backoffNames);
  const isLimited = maxAttempts !== Number.POSITIVE_INFINITY;
  if (maxAttempts !== undefined && isLimited && !(Number.isInteger(maxAttempts) && maxAttempts > 0)) {
    throw new TypeError(`retry.maxAttempts: ${maxAttempts} is not a whole number from 1, or Infinity`);
  }
  return {
    maxAttempts: isLimited ? (maxAttempts ?? limits.defaultMaxAttempts) : 0,
    ...backoffOf(backoff),
    deadLetterQueue: deadLetterQueue === undefined ? '' : nameToFill(deadLetterQueue),
  };
}

function backoffOf({ initial, max }: NonNullable<TaskRetryOptions['backoff']> = {}): {
  readonly backoffInitialMs: number;
  readonly backoffMaxMs: number;
} {
  const maxMs = max === undefined ? limits.defaultBackoffMaxMs : durationMs(max, 'retry.backoff.max');
  const { defaultBackoffInitialMs } = limits;
  const initialMs = initial === undefined ? defaultBackoffInitialMs : durationMs(initial, 'retry.backoff.initial');
  return { backoffInitialMs: initial === undefined ? Math.min(initialMs, maxMs) : initialMs, backoffMaxMs: maxMs };
}
