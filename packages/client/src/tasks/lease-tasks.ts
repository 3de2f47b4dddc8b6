import { type LeaseTasksRequest, limits, type LeasedTask as WireTask } from '@taskmaster/proto';
import { Lease, type Leased, type LeaseTerms } from '../leases/lease.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Decoded, decodeData } from '../values/codec.ts';
import { type Duration, durationMs, leaseMs as leaseMsOf } from '../values/duration.ts';
import { cancelled } from '../values/errors.ts';
import type { CallOptions } from '../values/options.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';
import type { ClientContext } from './context.ts';
import { LeasedTask } from './leased-task.ts';
import { FORMAT, type QueueRef } from './new-task.ts';
import { type LeaseRef, Update } from './update.ts';

/** What is leased, and for how long. */
export interface LeaseOptions extends CallOptions {
  /** At most so many tasks, 1 to 10,000. Default 1. Fewer come when the reply would grow beyond `maxBytes`. */
  readonly max?: number | undefined;
  /** How long the leases last, 1 ms to 1 year. Default 30 s. */
  readonly leaseDuration?: Duration | undefined;
  /** How long to wait for a task when there is none, at most 10 minutes. Default: not at all. */
  readonly wait?: Duration | undefined;
  /** Only tasks with a PID up to this one, inclusive. Default: all. */
  readonly maxPid?: PidLike | undefined;
  /** What the worker calls itself, shown by `peek`. Default: the client's `workerLabel`. */
  readonly workerLabel?: string | undefined;
  /** Bound of the payloads in one reply, in bytes; the first task comes whatever its size. Default 3.5 MiB. */
  readonly maxBytes?: number | undefined;
}

const NO_BYTES = new Uint8Array(0);

/** Leases tasks of some queues. One that is given up gives back what was leased to it in the meantime. */
export async function leaseTasks<T>(
  context: ClientContext,
  queues: readonly QueueRef<T>[],
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  const { signal } = options;
  const leasing = leaseUntilSettled(context, queues, options);
  if (signal === undefined) return leasing;
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(cancelled(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([leasing, aborted.promise]);
  } catch (error) {
    // Only then has nobody got the tasks that may still come.
    if (signal.aborted) {
      const givingBack = leasing.then((tasks) => giveBack(context, tasks), noTasks);
      inBackground(context, givingBack);
    }
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * As `leaseTasks`, but after its signal is aborted it settles only when it is known what was leased, and may still
 * resolve with tasks.
 */
export async function leaseUntilSettled<T>(
  context: ClientContext,
  queues: readonly QueueRef<T>[],
  options: LeaseOptions,
): Promise<LeasedTask<T>[]> {
  const request = leaseRequest(context, queues, options);
  const sentAt = context.timing.now();
  const stopWatching = request.waitMs > 0 ? context.loop.watch() : undefined;
  let replies: readonly WireTask[];
  try {
    replies = await context.caller.lease(request, options);
  } finally {
    stopWatching?.();
  }
  const from = request.waitMs > 0 ? Math.max(sentAt, context.loop.polledAt) : sentAt;
  const [first] = queues;
  const byName = queues.length === 1 ? undefined : new Map(queues.map((queue) => [queue.name, queue]));
  const reading = replies.map((task) => {
    const queue = byName === undefined ? first : byName.get(task.queue);
    return readTask(context, queue ?? first, task, request.leaseDurationMs, from);
  });
  return reading.some((one) => one instanceof Promise) ? Promise.all(reading) : (reading as LeasedTask<T>[]);
}

/** How long the end of a client or of a worker is held up by what it gives back, in ms. */
export const GIVE_BACK_MS = 2_000;

/** Gives tasks back as if they had never been leased; what fails comes back when its lease ends. */
export async function giveBack(context: ClientContext, tasks: readonly (Leased | LeaseRef)[]): Promise<void> {
  // One update for each: they are joined on the wire, and one lost lease does not refuse the others.
  await Promise.allSettled(
    tasks.map((task) => new Update(context).release(task, { delay: 0, refundAttempt: true }).commit()),
  );
}

function leaseRequest(context: ClientContext, queues: readonly QueueRef[], options: LeaseOptions): LeaseTasksRequest {
  if (queues.length === 0) throw new TypeError('queues: at least one is needed');
  const max = options.max ?? 1;
  if (!Number.isInteger(max) || max < 1 || max > limits.leaseTasks) {
    throw new TypeError(`max: ${max} is not a whole number from 1 to ${limits.leaseTasks}`);
  }
  return {
    queues: [...new Set(queues.map(({ name }) => name))],
    maxTasks: max,
    leaseDurationMs: leaseMsOf(options.leaseDuration ?? limits.defaultLeaseMs, 'leaseDuration'),
    maxPid: options.maxPid === undefined ? NO_BYTES : pidBytes(options.maxPid),
    waitMs: durationMs(options.wait ?? 0, 'wait'),
    workerLabel: options.workerLabel ?? context.settings.workerLabel,
    maxBytes: options.maxBytes ?? 0,
  };
}

function readTask<T>(
  context: ClientContext,
  queue: QueueRef<T> | undefined,
  task: WireTask,
  leaseMs: number,
  from: number,
): LeasedTask<T> | Promise<LeasedTask<T>> {
  const terms: LeaseTerms = { queue: task.queue, pid: task.pid, token: task.leaseToken, leaseMs, from };
  const lease = new Lease(terms, context.timing, context.keeper.catchUp);
  if (queue === undefined) throw brokenReply('leased a task of a queue that was not asked for');
  const format = queue[FORMAT];
  if (format.schema === undefined) {
    // Decoded when first looked at: many readers want the bytes alone, or give the task back unread.
    let decoded: Decoded<T> | undefined;
    const decodeOnce = (): Decoded<T> => {
      decoded ??= decodeData(format, task.data) as Decoded<T>;
      return decoded;
    };
    return new LeasedTask(context, task, lease, decodeOnce);
  }
  const decoded = decodeData(format, task.data);
  if (decoded instanceof Promise) return decoded.then((settled) => new LeasedTask(context, task, lease, () => settled));
  return new LeasedTask(context, task, lease, () => decoded);
}

function inBackground(context: ClientContext, work: Promise<unknown>): void {
  context.background.add(work);
  void work.finally(() => context.background.delete(work));
}

const noTasks = (): void => {};
