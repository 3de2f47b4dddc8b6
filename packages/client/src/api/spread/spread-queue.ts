import type { QueueStats } from '@taskmaster/proto';
import { partId, RequestIds, requestIdOf } from '../../calls/update-request.ts';
import { type ClientContext, CONTEXT } from '../../tasks/context.ts';
import { type LeaseFrom, type LeaseSource, type SeveralQueues, sourceOf } from '../../tasks/lease-source.ts';
import type { LeasedTask } from '../../tasks/leased-task.ts';
import type { QueueRef } from '../../tasks/new-task.ts';
import { identityOf, shardOfPid } from '../../tasks/shard-names.ts';
import type { EnqueueOutcome } from '../../tasks/update.ts';
import { sleep } from '../../transport/timing.ts';
import { type Duration, durationMs } from '../../values/duration.ts';
import { cancelled, isTaskMasterError, type TaskMasterError, withMaybeApplied } from '../../values/errors.ts';
import { callHook } from '../../values/hooks.ts';
import { assertKnown, type OptionNames } from '../../values/known-options.ts';
import type { CallOptions } from '../../values/options.ts';
import { backoffBound, REQUEST_ID_REPEAT_MS } from '../../values/retry.ts';
import { Worker } from '../../worker/worker.ts';
import { WorkerGroup } from '../../worker/worker-group.ts';
import type {
  AnyHandler,
  AnyWorkerOptions,
  BatchHandled,
  BatchHandler,
  BatchWorkerOptions,
  Handler,
  WorkerOptions,
} from '../../worker/worker-options.ts';
import { workerNames } from '../../worker/worker-options.ts';
import type { EnqueueOptions } from '../queue.ts';
import { addShards } from '../shards/shard-stats.ts';
import { isOfTarget, type SpreadTarget, Target, type TargetState } from './target.ts';

export interface SpreadOptions<T = unknown, In = T> {
  /**
   * Where a task goes while all targets are up. `any` (default): a task with a PID to the target of the PID, by a hash; others to
   * each target in turn. `first`: to the first target, for example the nearest cluster.
   */
  readonly prefer?: 'any' | 'first' | undefined;
  /** Longest time for one target before the next one is tried. Default 3 s: routers hold calls to a dead node for 2 s. */
  readonly patience?: Duration | undefined;
  /**
   * What happens after an attempt without an answer, which may have been applied. `fail-over` (default): the next target gets the
   * task, too. So it may be there twice. `stay`: the enqueue is repeated at this target until its timeout, which is safe; then it
   * rejects.
   */
  readonly whenUnsure?: 'fail-over' | 'stay' | undefined;
  /** Called when an enqueue has failed at a target and goes to another one. */
  readonly onFailOver?: ((error: TaskMasterError, queue: SpreadTarget<T, In>) => void) | undefined;
}

export interface SpreadOutcome<T, In = T> extends EnqueueOutcome {
  /** The queue that accepted the task. */
  readonly queue: SpreadTarget<T, In>;
}

/** Statistics of the targets that answer, and their sums. */
export interface SpreadStats extends QueueStats {
  readonly targets: readonly QueueStats[];
  /** Errors of the targets that did not answer. Their tasks are missing. */
  readonly unreachable: readonly TaskMasterError[];
}

const spreadNames: OptionNames<SpreadOptions> = {
  prefer: true,
  patience: true,
  whenUnsure: true,
  onFailOver: true,
};

const PAUSE_INITIAL_MS = 50;
const PAUSE_MAX_MS = 1_000;

/**
 * Several queues that take enqueues for each other: queues of several clusters, or of several groups of one cluster. `spread`
 * makes one. An enqueue goes to one of them, and to the next one at once if that is down, so that tasks are accepted while any
 * target is up. Workers take the tasks of all targets.
 *
 * Each target keeps its guarantees; there are none across targets. A PID is unique in a target. While all targets are up, a PID
 * always goes to the same one.
 */
export class SpreadQueue<T, In = T> {
  readonly #targets: readonly Target<T, In>[];
  readonly #context: ClientContext;
  readonly #options: SpreadOptions<T, In>;
  readonly #patienceMs: number;
  readonly #requestIds = new RequestIds();
  #turn: number;

  /** Internal: use `spread`. */
  constructor(queues: readonly SpreadTarget<T, In>[], options: SpreadOptions<T, In>) {
    const [first] = queues;
    if (first === undefined) throw new TypeError('queues: at least one is needed');
    if (new Set(queues).size < queues.length) throw new TypeError('queues: one is named twice');
    this.#context = first[CONTEXT];
    const { timing, random } = this.#context;
    this.#targets = queues.map((queue) => new Target(queue, () => timing.now(), random));
    this.#options = checked(options);
    this.#patienceMs = durationMs(options.patience ?? '3s', 'patience');
    this.#turn = Math.floor(random() * queues.length);
  }

  /** The targets, and whether enqueues are sent to them now. */
  get targets(): readonly TargetState<T, In>[] {
    return this.#targets.map(({ state }) => state);
  }

  /**
   * Adds a task to one of the targets. Resolves when it is on disk there. While no target accepts it, all are tried again
   * until the `timeout` of the call.
   * @throws the error of the last target. It has `maybeApplied` if any target may have accepted the task. Errors that another
   * target would answer alike reject at once: InvalidDataError, InvalidRequestError, TaskExistsError, PermissionDeniedError,
   * ...
   */
  async enqueue(data: In, options: EnqueueOptions = {}): Promise<SpreadOutcome<T, In>> {
    const { timing, random, settings } = this.#context;
    const { signal, timeout } = options;
    const timeoutMs = timeout === undefined ? settings.timeoutMs : durationMs(timeout, 'timeout');
    const begun = timing.now();
    const until = begun + timeoutMs;
    const requestId = requestIdOf(options) ?? this.#requestIds.next();
    const first = this.#firstFor(options);
    let isUnsure = false;
    let last: TaskMasterError | undefined;
    for (let round = 1; ; round++) {
      for (const place of this.#inOrder(first)) {
        const leftMs = until - timing.now();
        if (last !== undefined && leftMs <= 0) break;
        const attempt = { ...options, requestId: partId(requestId, place) };
        const failed = await this.#attempt(place, data, attempt, leftMs);
        if (!isTaskMasterError(failed)) return failed;
        if (signal?.aborted) throw cancelled(signal, failed);
        isUnsure ||= failed.maybeApplied;
        last = withMaybeApplied(failed, isUnsure);
        if (!isOfTarget(failed) || (failed.maybeApplied && this.#options.whenUnsure === 'stay')) throw last;
      }
      const pauseMs = backoffBound(round, PAUSE_INITIAL_MS, PAUSE_MAX_MS) * random();
      // A target may have forgotten the request id of an attempt without an answer.
      const end = isUnsure ? Math.min(until, begun + REQUEST_ID_REPEAT_MS) : until;
      if (last !== undefined && timing.now() + pauseMs >= end) throw last;
      await sleep(timing, pauseMs, signal).catch(() => {
        throw cancelled(signal, last);
      });
    }
  }

  /**
   * A worker for the tasks of all targets: one worker for each client of the targets, each with these options. So the
   * `concurrency` is that of each client.
   */
  // The order is that of `client.worker`.
  worker<R extends BatchHandled>(
    handler: BatchHandler<T, R>,
    options: BatchWorkerOptions<T>,
  ): WorkerGroup<T, readonly LeasedTask<T>[]>;
  worker(handler: Handler<T>, options?: WorkerOptions<T>): WorkerGroup<T>;
  worker(
    handler: AnyHandler<T>,
    options: AnyWorkerOptions<T> = {},
  ): WorkerGroup<T> | WorkerGroup<T, readonly LeasedTask<T>[]> {
    assertKnown('worker', options, workerNames);
    const queues = this.#targets.map(({ queue }) => queue);
    const ofClients = Map.groupBy(queues, (queue) => queue[CONTEXT]);
    return new WorkerGroup(
      [...ofClients].map(([context, own]) => new Worker<T>(context, inTurn<T>(own), handler, options)),
    );
  }

  /** Sums over the targets that answer. @throws the error of a target if none answers. */
  async stats(options: CallOptions = {}): Promise<SpreadStats> {
    const asked = await Promise.allSettled(this.#targets.map(({ queue }) => queue.stats(options)));
    const targets = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const failed = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    const other = failed.find((error) => !isTaskMasterError(error) || !isOfTarget(error));
    if (other !== undefined || targets.length === 0) throw other ?? failed[0];
    const { shards, ...sums } = addShards(this.#targets[0]?.queue.name ?? '', targets);
    return { ...sums, targets: shards, unreachable: failed };
  }

  /** One attempt at a target. Resolves with the error of a failure. */
  async #attempt(
    place: number,
    data: In,
    options: EnqueueOptions,
    leftMs: number,
  ): Promise<SpreadOutcome<T, In> | TaskMasterError> {
    const target = this.#targets[place];
    if (target === undefined) throw new RangeError(`there is no target ${place}`);
    const { queue } = target;
    const timeout = Math.max(0, Math.min(this.#patienceMs, leftMs));
    target.trying(timeout);
    try {
      const outcome = await this.#send(queue, data, options, timeout, leftMs);
      target.succeeded();
      // Not a copy: its `id` is of the prototype.
      return Object.assign(outcome, { queue });
    } catch (error) {
      if (isTaskMasterError(error) && isOfTarget(error)) {
        target.failed(error);
        callHook(this.#options, 'onFailOver', error, queue);
      } else {
        target.wasNotTried();
      }
      if (!isTaskMasterError(error)) throw error;
      return error;
    }
  }

  /** With `stay`, an attempt without an answer is repeated at the same target, which applies its request id once. */
  async #send(
    queue: SpreadTarget<T, In>,
    data: In,
    options: EnqueueOptions,
    timeout: number,
    leftMs: number,
  ): Promise<EnqueueOutcome> {
    const begun = this.#context.timing.now();
    try {
      return await queue.enqueue(data, { ...options, timeout, maxAttempts: 1 });
    } catch (error) {
      const isUnsure = isTaskMasterError(error) && error.maybeApplied && isOfTarget(error);
      const restMs = leftMs - (this.#context.timing.now() - begun);
      if (!isUnsure || this.#options.whenUnsure !== 'stay' || restMs <= 0) throw error;
      return await queue.enqueue(data, { ...options, timeout: restMs }).catch((again: unknown) => {
        throw isTaskMasterError(again) ? withMaybeApplied(again, true) : again;
      });
    }
  }

  /** The place of the target that a task goes to while all are up. */
  #firstFor(options: EnqueueOptions): number {
    const count = this.#targets.length;
    if (this.#options.prefer === 'first') return 0;
    const key = identityOf(options) ?? requestIdOf(options);
    return key === undefined ? this.#turn++ % count : shardOfPid(key, count);
  }

  /** The places of all targets: from the first one on, those that are up before those that are not. */
  #inOrder(first: number): readonly number[] {
    const places = this.#targets.map((_, at) => (first + at) % this.#targets.length);
    const up = places.filter((place) => this.#targets[place]?.isUp);
    return [...up, ...places.filter((place) => !up.includes(place))];
  }
}

/**
 * Spreads enqueues over several queues, and keeps accepting tasks while any of them is up: queues of clients of several
 * clusters, or of several groups of one cluster. They should have the same codec or schema.
 *
 *     const conversions = spread([london.queue<Doc>('docs#convert'), paris.queue<Doc>('docs#convert')]);
 *     await conversions.enqueue(doc, { pid: doc.id });
 *     await using worker = conversions.worker(async (task) => convert(task.data));
 *
 * @throws TypeError for no queues, and for wrong options.
 */
export function spread<T, In = T>(
  queues: readonly SpreadTarget<T, In>[],
  options: SpreadOptions<T, In> = {},
): SpreadQueue<T, In> {
  return new SpreadQueue(queues, options);
}

function checked<T, In>(options: SpreadOptions<T, In>): SpreadOptions<T, In> {
  assertKnown('spread', options, spreadNames);
  const { prefer = 'any', whenUnsure = 'fail-over' } = options;
  if (prefer !== 'any' && prefer !== 'first') throw new TypeError(`prefer: '${prefer}' is not 'any' or 'first'`);
  if (whenUnsure !== 'fail-over' && whenUnsure !== 'stay') {
    throw new TypeError(`whenUnsure: '${whenUnsure}' is not 'fail-over' or 'stay'`);
  }
  return options;
}

/** Leases from all queues, and from each one first in turn. */
function inTurn<T>(queues: readonly (QueueRef<T> | SeveralQueues<T>)[]): LeaseSource<T> {
  if (queues.length === 1) return sourceOf(queues);
  let turn = 0;
  return async (most): Promise<LeaseFrom<T>> => {
    const first = turn++ % queues.length;
    const from = await sourceOf([...queues.slice(first), ...queues.slice(0, first)])(most);
    return { ...from, anyOrder: true };
  };
}
