import { partId, requestIdOf } from '../../calls/update-request.ts';
import { type ClientContext, CONTEXT } from '../../tasks/context.ts';
import { LEASE_FROM, type LeaseFrom, type LeaseSource, type SeveralQueues } from '../../tasks/lease-source.ts';
import { type LeaseOptions, leaseFrom, leaseNames } from '../../tasks/lease-tasks.ts';
import type { LeasedTask } from '../../tasks/leased-task.ts';
import type { TaskOptions } from '../../tasks/new-task.ts';
import { identityOf, numberOfShards, ShardNames, shardIn, shardOfPid } from '../../tasks/shard-names.ts';
import type { TaskInfo, TaskSummary } from '../../tasks/task-info.ts';
import type { EnqueueOutcome } from '../../tasks/update.ts';
import { resultOf, type TaskEnd, type WaitForOptions } from '../../tasks/wait-for.ts';
import type { DataFormat } from '../../values/codec.ts';
import type { Duration } from '../../values/duration.ts';
import { TaskNotFoundError } from '../../values/errors.ts';
import { assertKnown } from '../../values/known-options.ts';
import { type CallOptions, callNames, type UpdateOptions } from '../../values/options.ts';
import { comparePids, type PidLike, pidBytes } from '../../values/pid.ts';
import { isByKey, nameBytes, type TaskName } from '../../values/task-name.ts';
import type { PauseOptions } from '../pauses.ts';
import { type CancelOptions, type EnqueueOptions, type GetOptions, type PeekOptions, Queue } from '../queue.ts';
import { type QueueSettings, QueueSettingsOfClient } from '../queue-settings.ts';
import { FirstShard } from './first-shard.ts';
import { KnownShards, LOOK_MS } from './known-shards.ts';
import { addShards, type ShardedQueueStats } from './shard-stats.ts';

/** Tasks that `enqueueMany` divides among the shards at once. */
const MANY_TASKS = 10_000;
/** Tasks that `peek` shows by default. */
const PEEK_LIMIT = 10;

/**
 * A queue that is too busy for one node. It is divided into shards, and each shard is a queue in a group of its own: the shard
 * 3 of `shop#mail` is the queue `shop~3#mail`. `client.shardedQueue(name, { shards })` makes one without a request.
 *
 * A task with a PID is always in the same shard, by a hash, so its PID is unique in the whole queue while the number of shards
 * does not change. Tasks without a PID go to the shards in turn. A lease asks all shards. Within a shard tasks come in the
 * order of their PIDs, and overall nearly in this order: each lease takes its tasks from the shard that is behind, or whose
 * turn it is.
 *
 * A change of the number of shards loses no tasks: reads and leases also find the tasks of shards beyond this number.
 */
export class ShardedQueue<T, In = T> implements SeveralQueues<T> {
  /** `group#name`, or `name` in the default group. No queue has this name. */
  readonly name: string;
  /** Number of shards that enqueues use. */
  readonly shards: number;
  readonly #context: ClientContext;
  readonly #names: ShardNames;
  readonly #format: DataFormat<T, In>;
  readonly #queues = new Map<number, Queue<T, In>>();
  readonly #known: KnownShards;
  readonly #first: FirstShard;
  /** Shard of the next task without a PID. */
  #nextEnqueue: number;

  /** Internal: use `client.shardedQueue()`. */
  constructor(context: ClientContext, name: string, shards: number, format: DataFormat<T, In>) {
    this.#names = new ShardNames(name);
    this.name = this.#names.name;
    this.shards = numberOfShards(shards);
    this.#context = context;
    this.#format = format;
    this.#known = new KnownShards(context, this.#names, shards);
    this.#first = new FirstShard(() => context.timing.now(), Math.floor(context.random() * shards));
    this.#nextEnqueue = Math.floor(context.random() * shards);
  }

  /** Internal. */
  get [LEASE_FROM](): LeaseSource<T> {
    return (most) => this.#leaseFrom(most);
  }

  /** Internal. */
  get [CONTEXT](): ClientContext {
    return this.#context;
  }

  /** The queue of a shard. Numbers beyond `shards` are those of another number of shards. */
  shard(number: number): Queue<T, In> {
    numberOfShards(number + 1);
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = new Queue<T, In>(this[CONTEXT], this.#names.of(number), this.#format);
      this.#queues.set(number, queue);
    }
    return queue;
  }

  /** The shard of a PID, or of a key, to enqueue a task in one update with other tasks of this shard's group. */
  shardOf(pid: PidLike): Queue<T, In> {
    return this.shard(shardOfPid(pidBytes(pid), this.shards));
  }

  /**
   * The shard that is in one group with a task, for a follow-up task that is enqueued together with the completion:
   * `task.complete({ enqueue: [sent.shardBeside(task).task(data)] })`.
   * @throws TypeError if the task is not of a shard of a sharded queue in the same group.
   */
  shardBeside(task: { readonly queue: string }): Queue<T, In> {
    const found = shardIn(task.queue);
    if (found !== undefined && this.#names.besides(found.name, found.shard) === task.queue)
      return this.shard(found.shard);
    throw new TypeError(`'${task.queue}' is not a shard of a queue in the group of '${this.name}'`);
  }

  /**
   * Adds a task to its shard: by its order key, its key or its PID, or to the next shard. With an order key, a PID or a key is
   * unique among the tasks of its shard only. A repetition with the same `requestId` goes to the same shard.
   * `retry.deadLetterQueue` names a queue of the group of the sharded queue, and becomes one of the same shard. Rejects as
   * `Queue.enqueue` does.
   */
  async enqueue(data: In, options: EnqueueOptions = {}): Promise<EnqueueOutcome> {
    const requestId = requestIdOf(options);
    const shard = this.#shardFor(options, () =>
      requestId === undefined ? this.#turn() : shardOfPid(requestId, this.shards),
    );
    return this.shard(shard).enqueue(data, this.#names.optionsOf(shard, options));
  }

  /**
   * Adds many tasks. The shards get theirs at the same time; within a shard they keep their order. After an error some tasks
   * may be in the queue. With a `requestId` the call can be repeated, as `Queue.enqueueMany`, with the same number of shards.
   */
  async enqueueMany(
    items: Iterable<TaskOptions & { readonly data: In }>,
    options: UpdateOptions = {},
  ): Promise<EnqueueOutcome[]> {
    const wholeId = requestIdOf(options);
    let turn = wholeId === undefined ? this.#turn() : shardOfPid(wholeId, this.shards);
    const outcomes: EnqueueOutcome[] = [];
    let parts = 0;
    let byShard = new Map<number, { readonly places: number[]; readonly items: (TaskOptions & { data: In })[] }>();
    let count = 0;
    const send = async (): Promise<void> => {
      const sending = [...byShard].map(async ([shard, part]) => {
        const requestId = wholeId === undefined ? undefined : partId(wholeId, parts++);
        const done = await this.shard(shard).enqueueMany(part.items, { ...options, requestId });
        for (const [at, outcome] of done.entries()) outcomes[part.places[at] ?? -1] = outcome;
      });
      byShard = new Map();
      count = 0;
      const failed = (await Promise.allSettled(sending)).find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
    };
    let place = 0;
    for (const item of items) {
      const shard = this.#shardFor(item, () => turn++ % this.shards);
      const part = byShard.get(shard) ?? { places: [], items: [] };
      byShard.set(shard, part);
      part.places.push(place++);
      part.items.push(this.#names.optionsOf(shard, item));
      if (++count === MANY_TASKS) await send();
    }
    await send();
    return outcomes;
  }

  /**
   * Leases tasks of all shards with one request, in the order of their PIDs. With `wait` it waits at all shards. See
   * `Queue.lease`.
   */
  async lease(options: LeaseOptions = {}): Promise<LeasedTask<T>[]> {
    assertKnown('lease', options, leaseNames);
    return leaseFrom(this[CONTEXT], this[LEASE_FROM], options);
  }

  /** Sums over all shards, and the statistics of each shard. Rejects if the node of a shard does not answer. */
  async stats(options: CallOptions = {}): Promise<ShardedQueueStats> {
    assertKnown('stats', options, callNames);
    return addShards(this.name, await this.#known.stats(options));
  }

  /**
   * Reads tasks of all shards without leasing them, in the order of their PIDs, with `data: false` without their data.
   * `leased` and `delayed` tasks come in the order in which they become available.
   */
  peek(options?: PeekOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  peek(options: PeekOptions & { readonly data: false }): Promise<TaskSummary[]>;
  peek(options: PeekOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async peek(options: PeekOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    const found = (await Promise.all((await this.queues()).map((queue) => queue.peek(options)))).flat();
    const isByTime = options.kind === 'leased' || options.kind === 'delayed';
    return found.sort(isByTime ? compareTimes : comparePidsOf).slice(0, options.limit ?? PEEK_LIMIT);
  }

  /**
   * The state of tasks, named by their PIDs or as `{ key }`, in their order. Asks the shard of a key, and all shards about a PID:
   * one that a node has assigned says nothing of the shard. If the shard of a key has no such task, it asks all shards, too. If
   * several shards have a task of that name, it is the one in the shard of the name, or the first one.
   */
  get(names: readonly TaskName[], options?: GetOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  get(names: readonly TaskName[], options: GetOptions & { readonly data: false }): Promise<TaskSummary[]>;
  get(names: readonly TaskName[], options: GetOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async get(names: readonly TaskName[], options: GetOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    const found = await this.#getByKeys(names, options);
    const left = [...names.entries()].filter(([at]) => (found[at]?.state ?? 'not-found') === 'not-found');
    if (left.length === 0) return found.filter((task) => task !== undefined);
    const queues = await this.queues();
    const asked = left.map(([, name]) => name);
    const answers = await Promise.all(queues.map((queue) => queue.get(asked, options)));
    for (const [i, [at, name]] of left.entries()) {
      const own = this.#shardOfName(name).name;
      const ofName = answers.map((tasks) => tasks[i]).filter((task) => task !== undefined);
      const there = ofName.filter(({ state }) => state !== 'not-found');
      found[at] = there.find(({ queue }) => queue === own) ?? there[0] ?? ofName.find(({ queue }) => queue === own);
    }
    return found.filter((task) => task !== undefined);
  }

  /** What the shards of the keys say, at the places of the keys. */
  async #getByKeys(
    names: readonly TaskName[],
    options: GetOptions,
  ): Promise<(TaskInfo<T> | TaskSummary | undefined)[]> {
    const found = new Array<TaskInfo<T> | TaskSummary | undefined>(names.length).fill(undefined);
    const keys = [...names.entries()].filter(([, name]) => isByKey(name));
    const byShard = Map.groupBy(keys, ([, name]) => this.#shardOfName(name));
    const asking = [...byShard].map(async ([queue, asked]) => {
      const tasks = await queue.get(
        asked.map(([, name]) => name),
        options,
      );
      for (const [i, [at]] of asked.entries()) found[at] = tasks[i];
    });
    await Promise.all(asking);
    return found;
  }

  /** Waits until the task is completed, whichever shard it is in. See `Queue.waitFor`. */
  async waitFor<R = unknown>(pid: PidLike, options: WaitForOptions<R> = {}): Promise<R | undefined> {
    return resultOf(await this.waitForEnd(pid, options), this.name, pidBytes(pid));
  }

  /** As `waitFor`, but resolves whichever way the task ends. */
  async waitForEnd<R = unknown>(pid: PidLike, options: WaitForOptions<R> = {}): Promise<TaskEnd<R>> {
    const queues = new Set([this.shardOf(pid), ...(await this.queues())]);
    return waitAtShards([...queues], pidBytes(pid), options);
  }

  /** Changes when a waiting task becomes available, whichever shard it is in. See `Queue.reschedule`. */
  async reschedule(task: TaskName, when: Duration | Date, options: UpdateOptions = {}): Promise<Date | undefined> {
    return this.#whereverItIs(task, options, (queue, rest) => queue.reschedule(task, when, rest));
  }

  /** Cancels a task, whichever shard it is in. See `Queue.cancel`. */
  cancel(task: TaskName, options: CancelOptions = {}): Promise<void> {
    return this.#whereverItIs(task, options, (queue, rest) => queue.cancel(task, { ...rest, reason: options.reason }));
  }

  /** Deletes all shards with all their tasks, each shard by itself. Resolves with the number of tasks. */
  async delete(options: CallOptions = {}): Promise<number> {
    return this.#sumOf(options, (queue) => queue.delete(options));
  }

  /** Makes the leased tasks of all shards available, each shard by itself. Resolves with the number of tasks. */
  async resetLeases(options: CallOptions = {}): Promise<number> {
    return this.#sumOf(options, (queue) => queue.resetLeases(options));
  }

  /**
   * Puts settings for all shards that enqueues use, each shard by itself. `deadLetterQueue` names a queue of the group of the
   * sharded queue, and becomes one of the same shard. See `QueueSettingsOfClient.put`.
   */
  async putSettings(settings: QueueSettings, options: CallOptions = {}): Promise<void> {
    const all = new QueueSettingsOfClient(this[CONTEXT]);
    const { deadLetterQueue: dead } = settings;
    await Promise.all(
      this.#own().map((shard) => {
        const deadLetterQueue = dead === undefined ? undefined : this.#names.besides(dead, shard);
        return all.put(this.#names.of(shard), { ...settings, deadLetterQueue }, options);
      }),
    );
  }

  /** Deletes the settings of all shards that enqueues use. Resolves with false if there were none. */
  async deleteSettings(options: CallOptions = {}): Promise<boolean> {
    const all = new QueueSettingsOfClient(this[CONTEXT]);
    const deleted = await Promise.all(this.#own().map((shard) => all.delete(this.#names.of(shard), options)));
    return deleted.includes(true);
  }

  /** Pauses all shards that enqueues use or that hold tasks, each shard by itself. See `Queue.pause`. */
  async pause(options: PauseOptions = {}): Promise<void> {
    const { signal, timeout, maxAttempts } = options;
    // Asks anew, and fails if a shard does not answer: no shard may be left out.
    await this.#known.stats({ signal, timeout, maxAttempts });
    await Promise.all((await this.queues()).map((queue) => queue.pause(options)));
  }

  /** Ends the pauses of all shards. */
  async resume(options: CallOptions = {}): Promise<void> {
    await this.#sumOf(options, async (queue) => Number((await queue.resume(options)).resumed));
  }

  /** The queues of the shards that may hold tasks, for calls about single queues. */
  async queues(): Promise<readonly Queue<T, In>[]> {
    return (await this.#known.numbers()).map((number) => this.shard(number));
  }

  /** Acts in the shard of the PID or key, or in the one that has the task. */
  async #whereverItIs<R>(
    name: TaskName,
    options: UpdateOptions,
    act: (queue: Queue<T, In>, options: UpdateOptions) => Promise<R>,
  ): Promise<R> {
    try {
      return await act(this.#shardOfName(name), options);
    } catch (error) {
      if (!(error instanceof TaskNotFoundError)) throw error;
      const { signal, timeout } = options;
      const [task] = await this.get([name], { data: false, signal, timeout });
      const found = task === undefined || task.state === 'not-found' ? undefined : shardIn(task.queue);
      if (found === undefined) throw error;
      return act(this.shard(found.shard), { signal, timeout });
    }
  }

  async #sumOf(options: CallOptions, act: (queue: Queue<T, In>) => Promise<number>): Promise<number> {
    assertKnown('options of a call', options, callNames);
    // Asks anew, and fails if a shard does not answer: no shard may be left out.
    await this.#known.stats(options);
    const counts = await Promise.all((await this.queues()).map(act));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #leaseFrom(most: number): Promise<LeaseFrom<T>> {
    const shards = await this.#known.numbers();
    const first = this.#first.choose(shards);
    const asked = [...shards.slice(first), ...shards.slice(0, first)].slice(0, most);
    return {
      queues: asked.map((shard) => this.shard(shard)),
      anyOrder: true,
      // Waits end in time for shards that are found meanwhile.
      maxWaitMs: LOOK_MS,
      firstAlone: this.#first.isBusy,
      onLeased: (tasks, max) => this.#first.leased(asked, tasks, max),
      onFirstFailed: () => this.#first.failed(shards[first] ?? 0),
    };
  }

  #own(): number[] {
    return Array.from({ length: this.shards }, (_, shard) => shard);
  }

  #shardOfName(name: TaskName): Queue<T, In> {
    return this.shard(shardOfPid(nameBytes(name), this.shards));
  }

  #turn(): number {
    return this.#nextEnqueue++ % this.shards;
  }

  #shardFor(task: TaskOptions, otherwise: () => number): number {
    const identity = identityOf(task);
    return identity === undefined ? otherwise() : shardOfPid(identity, this.shards);
  }
}

const comparePidsOf = (a: TaskSummary, b: TaskSummary): number => comparePids(a.pid, b.pid);

function compareTimes(a: TaskSummary, b: TaskSummary): number {
  return (a.hiddenUntil?.getTime() ?? 0) - (b.hiddenUntil?.getTime() ?? 0);
}

/** A shard, as a wait needs it. */
interface Shard {
  waitForEnd<R>(pid: Uint8Array, options: WaitForOptions<R>): Promise<TaskEnd<R>>;
}

/**
 * Waits for a task in all shards, because a PID that a node has assigned says nothing of the shard. The first shard that knows
 * how it ended decides. Rejects with the error of a shard if no other knows.
 */
async function waitAtShards<R>(
  shards: readonly Shard[],
  pid: Uint8Array,
  options: WaitForOptions<R>,
): Promise<TaskEnd<R>> {
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  const known = async (shard: Shard): Promise<TaskEnd<R>> => {
    const end = await shard.waitForEnd(pid, { ...options, signal });
    if (end.outcome === 'unknown') throw new UnknownThere(end);
    return end;
  };
  try {
    return await Promise.any(shards.map(known));
  } catch (thrown) {
    const causes: unknown[] = thrown instanceof AggregateError ? thrown.errors : [thrown];
    const [failure] = causes.filter((cause) => !(cause instanceof UnknownThere));
    if (failure !== undefined) throw failure;
    const [first] = causes;
    if (first instanceof UnknownThere) return first.end as TaskEnd<R>;
    throw thrown;
  } finally {
    over.abort();
  }
}

/** A shard does not know the task. */
class UnknownThere extends Error {
  readonly end: TaskEnd;

  constructor(end: TaskEnd) {
    super('the shard does not know the task');
    this.end = end;
  }
}
