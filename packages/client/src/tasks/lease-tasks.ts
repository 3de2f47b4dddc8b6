import {
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  limits,
  type LeasedTask as WireTask,
} from '@taskmaster/proto';
import { LEASE, Lease, type Leased, type LeaseTerms } from '../leases/lease.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Decoded, decodeData } from '../values/codec.ts';
import { type Duration, durationMs, leaseDurationMs as leaseDurationMsOf } from '../values/duration.ts';
import { cancelled, isTaskMasterError } from '../values/errors.ts';
import { kindPatterns } from '../values/kinds.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import { comparePids, type PidLike, pidBytes } from '../values/pid.ts';
import type { ClientContext } from './context.ts';
import type { LeaseFrom, LeaseSource, MatchedQueue } from './lease-source.ts';
import { LeasedTask } from './leased-task.ts';
import { FORMAT, type QueueFormat } from './new-task.ts';
import { type LeaseRef, tasksFrom, Update } from './update.ts';

/** Options of a lease request. */
export interface LeaseOptions extends CallOptions {
  /** Largest number of tasks, 1 to 10,000. Default 1. Fewer come if the reply would have more than `maxBytes`. */
  readonly max?: number | undefined;
  /** How long the leases last, 1 ms to 1 year. Default: as the queue's settings say, or 30 s. */
  readonly leaseDuration?: Duration | undefined;
  /** How long to wait if there is no task, at most 10 minutes. Default: not at all. */
  readonly wait?: Duration | undefined;
  /** Only tasks with a PID up to this one, inclusive. Default: all. */
  readonly maxPid?: PidLike | undefined;
  /** Label of the worker, shown by `peek`. Default: the client's `workerLabel`. */
  readonly workerLabel?: string | undefined;
  /** Largest size of the payloads in one reply, in bytes. The first task may be larger. Default 3.5 MiB. */
  readonly maxBytes?: number | undefined;
  /**
   * The kinds of tasks that the program can run, 1 to 100: kinds such as `resize@2`, or patterns such as `resize@*`. It gets no
   * other tasks. `''` stands for tasks without a kind. Default: all tasks.
   */
  readonly kinds?: readonly string[] | undefined;
  /**
   * For a program that leases more tasks than it begins at once, and tells with `task.begin()` when it begins one. If it dies,
   * only the attempts at tasks that have begun fail. Default: all tasks have begun when they are leased.
   */
  readonly starts?: LeaseStarts | undefined;
}

/** How a program begins the tasks that it leases. */
export interface LeaseStarts {
  /** How many tasks it begins at once: the first ones. */
  readonly now: number;
  /** How many tasks it works on together, so that any of them may be to blame if it dies. Default 1. */
  readonly together?: number | undefined;
}

export const leaseNames: OptionNames<LeaseOptions> = {
  ...callNames,
  max: true,
  leaseDuration: true,
  wait: true,
  maxPid: true,
  workerLabel: true,
  maxBytes: true,
  kinds: true,
  starts: true,
};

const NO_BYTES = new Uint8Array(0);
/** Timeout of a request to the first queue alone, in ms. */
const FIRST_TIMEOUT_MS = 1_000;

/** Leases tasks of the queues of a source. Asks again if others of them may have tasks. */
export async function leaseFrom<T>(
  context: ClientContext,
  source: LeaseSource<T>,
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  const { timing } = context;
  const until = timing.now() + durationMs(options.wait ?? 0, 'wait');
  for (;;) {
    const from = await untilAborted(Promise.resolve(source(limits.leaseQueues)), options.signal);
    const tasks = await leaseTasks(context, from, { ...options, wait: Math.max(0, until - timing.now()) });
    const { maxWaitMs } = from;
    const isOver = maxWaitMs === undefined || (maxWaitMs > 0 && timing.now() >= until);
    if (tasks.length > 0 || isOver) return tasks;
  }
}

/** Leases tasks of these queues. If the signal is aborted, tasks that were leased meanwhile are released. */
export function leaseTasks<T>(
  context: ClientContext,
  from: LeaseFrom<T>,
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  const { signal } = options;
  const leasing = leaseUntilSettled(context, from, options);
  return signal === undefined ? leasing : unlessAborted(context, leasing, signal);
}

async function unlessAborted<T>(
  context: ClientContext,
  leasing: Promise<LeasedTask<T>[]>,
  signal: AbortSignal,
): Promise<LeasedTask<T>[]> {
  try {
    return await untilAborted(leasing, signal);
  } catch (error) {
    // The caller does not get tasks that may still arrive, so they are released.
    if (signal.aborted) {
      const givingBack = leasing.then((tasks) => giveBack(context, tasks), noTasks);
      inBackground(context, givingBack);
    }
    throw error;
  }
}

/** The outcome of the work. Rejects at once if the signal is aborted before; the work goes on. */
export async function untilAborted<R>(work: Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  if (signal === undefined) return work;
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(cancelled(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * As `leaseTasks`, but after an abort it settles only when it is known which tasks were leased. It may still resolve with
 * tasks, and the caller must release them.
 */
export async function leaseUntilSettled<T>(
  context: ClientContext,
  from: LeaseFrom<T>,
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  const max = from.partOf?.(maxOf(options)) ?? maxOf(options);
  const wait = Math.min(durationMs(options.wait ?? 0, 'wait'), from.maxWaitMs ?? Number.POSITIVE_INFINITY);
  const now = { ...options, max, wait };
  const matched: MatchedQueue[] = [];
  let tasks = from.firstAlone ? await leaseOfFirst(context, from, now) : [];
  if (tasks.length === 0) {
    tasks = await leaseOnce(context, from, now, matched);
  } else if (tasks.length < max && options.maxBytes === undefined) {
    // Few tasks may be all that fit into `maxBytes`. Those that are leased already must reach the caller, whatever happens now.
    const starts = now.starts && { ...now.starts, now: Math.max(0, now.starts.now - tasks.length) };
    const rest = leaseOnce(context, from, { ...now, max: max - tasks.length, wait: 0, starts }, matched);
    tasks.push(...(await rest.catch(() => [])));
  }
  if (from.anyOrder) tasks.sort(inOrder);
  from.onLeased?.(tasks, max, matched);
  return tasks;
}

/** By their PIDs, but first those that count as begun: the caller begins the first ones. */
const inOrder = (a: LeasedTask<unknown>, b: LeasedTask<unknown>): number =>
  Number(a.unbegun !== undefined) - Number(b.unbegun !== undefined) || comparePids(a.pid, b.pid);

/**
 * Tasks of the first queue, without a wait. None if this fails: the request for all queues says what is wrong, if anything is.
 */
async function leaseOfFirst<T>(
  context: ClientContext,
  { queues, anyOrder, onFirstFailed }: LeaseFrom<T>,
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  try {
    const timeout = Math.min(FIRST_TIMEOUT_MS, durationMs(options.timeout ?? FIRST_TIMEOUT_MS, 'timeout'));
    return await leaseOnce(context, { queues: queues.slice(0, 1), anyOrder }, { ...options, wait: 0, timeout });
  } catch (error) {
    if (!isTaskMasterError(error)) throw error;
    if (!options.signal?.aborted) onFirstFailed?.();
    return [];
  }
}

/** Queues that match patterns that one reply names beside its tasks. */
const MORE_QUEUES = 32;

/** One request. `matched` gets what becomes known of queues that match patterns. */
async function leaseOnce<T>(
  context: ClientContext,
  from: LeaseFrom<T>,
  options: LeaseOptions,
  matched: MatchedQueue[] = [],
): Promise<LeasedTask<T>[]> {
  const { queues, patterns = [] } = from;
  const request = leaseRequest(context, from, options);
  const sentAt = context.timing.now();
  const stopWatching = request.waitMs > 0 ? context.loop.watch() : undefined;
  let reply: LeaseTasksResponse;
  try {
    reply = await context.telemetry.lease(request, options);
  } finally {
    stopWatching?.();
  }
  const leasedFrom = request.waitMs > 0 ? Math.max(sentAt, context.loop.polledAt) : sentAt;
  const [first] = queues;
  const byName = queues.length === 1 ? undefined : new Map(queues.map((queue) => [queue.name, queue]));
  if (patterns.length > 0) matched.push(...matchedIn(reply));
  const reading = reply.tasks.map((task) => {
    const queue = byName === undefined ? first : byName.get(task.queue);
    const { [FORMAT]: format } = patterns[task.patternId - 1] ?? queue ?? first ?? {};
    const leaseDurationMs = task.leaseDurationMs || request.leaseDurationMs || limits.defaultLeaseDurationMs;
    return readTask(context, format, task, leaseDurationMs, leasedFrom);
  });
  return reading.some((one) => one instanceof Promise) ? Promise.all(reading) : (reading as LeasedTask<T>[]);
}

/** What a reply says of queues that match patterns, those with tasks in the reply first. */
function matchedIn({ tasks, moreQueues }: LeaseTasksResponse): MatchedQueue[] {
  const patternOf = new Map<string, number>();
  for (const { queue, patternId } of tasks) if (patternId > 0) patternOf.set(queue, patternId);
  for (const { queue, patternId } of moreQueues) patternOf.set(queue, patternId);
  const more = new Set(moreQueues.map(({ queue }) => queue));
  const isCut = moreQueues.length >= MORE_QUEUES;
  return [...patternOf].map(([queue, id]) => ({ queue, pattern: id - 1, hasTasks: isCut || more.has(queue) }));
}

/** How long a client or a worker that stops waits for its releases, in ms. */
export const GIVE_BACK_MS = 2_000;

/**
 * Releases tasks without counting the attempt. A task whose release fails is available when its lease ends.
 * @param interrupted whether the work had begun.
 */
export async function giveBack(
  context: ClientContext,
  tasks: readonly (Leased | LeaseRef)[],
  interrupted = false,
): Promise<void> {
  const options = interrupted ? { interrupted } : { delay: 0, refundAttempt: true };
  // Nobody renews a lease whose release fails.
  for (const task of tasks) if (LEASE in task) task[LEASE].letGo();
  // One update for each task, so that a lost lease does not refuse the others. The stream joins them into few messages.
  await Promise.allSettled(tasks.map((task) => new Update(context).release(task, options).commit()));
}

/** @throws TypeError unless it is a number of tasks. */
const maxOf = ({ max = 1 }: LeaseOptions): number => tasksFrom(1, max, 'max');

const startsNames: OptionNames<LeaseStarts> = { now: true, together: true };

/** @throws TypeError unless these are numbers of tasks. */
function startsMessage(starts: LeaseStarts): { now: number; together: number } {
  assertKnown('starts', starts, startsNames);
  const { now, together = 1 } = starts;
  return { now: tasksFrom(0, now, 'starts.now'), together: tasksFrom(1, together, 'starts.together') };
}

function leaseRequest<T>(
  context: ClientContext,
  { queues, patterns = [], anyOrder }: LeaseFrom<T>,
  options: LeaseOptions,
): LeaseTasksRequest {
  if (queues.length + patterns.length === 0) throw new TypeError('queues: at least one is needed');
  const max = maxOf(options);
  const names = queues.map(({ name }) => name);
  return {
    queues: [...new Set(names)],
    patterns: patterns.map(({ regex = '', group, after }, index) => ({
      nameRegex: regex,
      group,
      afterQueues: new Set(names.slice(0, after)).size,
      id: index + 1,
    })),
    maxMoreQueues: patterns.length === 0 ? 0 : MORE_QUEUES,
    maxTasks: max,
    leaseDurationMs:
      options.leaseDuration === undefined ? 0 : leaseDurationMsOf(options.leaseDuration, 'leaseDuration'),
    maxPid: options.maxPid === undefined ? NO_BYTES : pidBytes(options.maxPid),
    waitMs: durationMs(options.wait ?? 0, 'wait'),
    workerLabel: options.workerLabel ?? context.settings.workerLabel,
    maxBytes: options.maxBytes ?? 0,
    anyOrder,
    kinds: kindPatterns(options.kinds),
    starts: options.starts && startsMessage(options.starts),
    includeSignals: true,
  };
}

function readTask<T>(
  context: ClientContext,
  format: QueueFormat<T, unknown> | undefined,
  task: WireTask,
  leaseDurationMs: number,
  from: number,
): LeasedTask<T> | Promise<LeasedTask<T>> {
  const timeLimitMs = task.timeLimitMs || undefined;
  const { queue: name, pid, leaseToken: token, attempt, headers } = task;
  const terms: LeaseTerms = { queue: name, pid, token, attempt, headers, leaseDurationMs, timeLimitMs, from };
  const lease = new Lease(terms, context.timing, context.keeper.catchUp);
  lease.unbegun = task.unbegun;
  if (format === undefined) throw brokenReply('leased a task of a queue that was not asked for');
  if (format.schema === undefined) {
    // Decoded when `data` is read, because many callers need only the bytes.
    let decoded: Decoded<T> | undefined;
    const decodeOnce = (): Decoded<T> => {
      decoded ??= decodeData(format, task.data) as Decoded<T>;
      return decoded;
    };
    return new LeasedTask(context, task, lease, decodeOnce, format.resultSchema);
  }
  const decoded = decodeData(format, task.data);
  const { resultSchema } = format;
  if (decoded instanceof Promise)
    return decoded.then((settled) => new LeasedTask(context, task, lease, () => settled, resultSchema));
  return new LeasedTask(context, task, lease, () => decoded, resultSchema);
}

function inBackground(context: ClientContext, work: Promise<unknown>): void {
  context.background.add(work);
  void work.finally(() => context.background.delete(work));
}

const noTasks = (): void => {};
