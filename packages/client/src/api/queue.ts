import { type Enqueue, limits, PeekKind, type QueueStats, type TaskInfo as WireInfo } from '@taskmaster/proto';
import { partId } from '../calls/request-ids.ts';
import { emptyRequest, requestIdOf } from '../calls/update-request.ts';
import type { ClientContext } from '../tasks/context.ts';
import { type LeaseOptions, leaseTasks } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import {
  canonicalName,
  FORMAT,
  type NewTask,
  newTask,
  prepareEnqueue,
  type QueueRef,
  type TaskOptions,
} from '../tasks/new-task.ts';
import { type TaskInfo, type TaskSummary, taskInfo, taskSummary } from '../tasks/task-info.ts';
import { type EnqueueOutcome, enqueueOutcome } from '../tasks/update.ts';
import type { TransportCallOptions } from '../transport/transport.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import type { DataFormat } from '../values/codec.ts';
import type { CallOptions, UpdateOptions } from '../values/options.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';

export interface EnqueueOptions extends TaskOptions, UpdateOptions {}

export interface PeekOptions extends CallOptions {
  /**
   * `head`: available tasks in the order in which they would be leased (default). `leased`, `delayed`: a sample, those
   * that come back first.
   */
  readonly kind?: 'head' | 'leased' | 'delayed' | undefined;
  /** At most so many, 1 to 1,000. Default 10. */
  readonly limit?: number | undefined;
  /** Ask for the payloads too. Default true. */
  readonly data?: boolean | undefined;
}

export interface GetOptions extends CallOptions {
  /** Ask for the payloads too. Default true. */
  readonly data?: boolean | undefined;
}

const peekKinds = {
  head: PeekKind.PEEK_KIND_HEAD,
  leased: PeekKind.PEEK_KIND_LEASED,
  delayed: PeekKind.PEEK_KIND_DELAYED,
} as const;

/** `enqueueMany` sends at most so many tasks, and so many bytes of payload, in one request. */
const MANY_TASKS = 1_000;
const MANY_BYTES = limits.requestBytes / 4;

const NO_OPTIONS: EnqueueOptions = {};

/**
 * A queue whose tasks hold `T`. `In` is what may be enqueued where a schema makes something else of it. Made by
 * `client.queue(name)`; making one asks no node: a queue exists while it holds tasks.
 */
export class Queue<T, In = T> implements QueueRef<T, In> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  /** Not for callers of the library. */
  readonly [FORMAT]: DataFormat<T, In>;
  readonly #context: ClientContext;

  /** Not for callers: `client.queue()` makes one. */
  constructor(context: ClientContext, name: string, format: DataFormat<T, In>) {
    this.name = canonicalName(name);
    this[FORMAT] = format;
    this.#context = context;
  }

  /**
   * Adds a task; resolves when it is on disk. Concurrent calls are joined into few requests, each as if it were alone.
   * @throws InvalidDataError before anything is sent; TaskExistsError with `mode: 'fail'`; Overloaded, DiskFullError, Unavailable,
   * DeadlineExceededError, Cancelled.
   */
  async enqueue(data: In, options: EnqueueOptions = NO_OPTIONS): Promise<EnqueueOutcome> {
    const item = prepareEnqueue(this, data, options);
    const request = emptyRequest();
    request.enqueue.push(item instanceof Promise ? await item : item);
    const { enqueued } = await this.#context.updates.send(request, options);
    return onlyOutcome(enqueued.map(enqueueOutcome));
  }

  /**
   * Adds many tasks, in order, with a request for each 1,000 of them or each MiB of payload, one after the other. Each
   * request is atomic, the whole is not: after an error some may have been added. Use `client.update()` for all or nothing.
   *
   * With a `requestId` the same items can be given again after an error: requests that took effect the first time get their
   * first outcomes, the others are applied. That holds for as long as the node remembers the first request.
   */
  async enqueueMany(
    items: Iterable<TaskOptions & { readonly data: In }>,
    options: UpdateOptions = {},
  ): Promise<EnqueueOutcome[]> {
    const outcomes: EnqueueOutcome[] = [];
    const wholeId = requestIdOf(options);
    let requests = 0;
    let batch: Enqueue[] = [];
    let bytes = 0;
    const send = async (): Promise<void> => {
      const request = { ...emptyRequest(), enqueue: batch };
      batch = [];
      bytes = 0;
      const requestId = wholeId === undefined ? undefined : partId(wholeId, requests++);
      const { enqueued } = await this.#context.updates.send(request, { ...options, requestId });
      for (const outcome of enqueued) outcomes.push(enqueueOutcome(outcome));
    };
    for (const item of items) {
      const prepared = await prepareEnqueue(this, item.data, item);
      if (bytes > 0 && bytes + prepared.data.byteLength > MANY_BYTES) await send();
      batch.push(prepared);
      bytes += prepared.data.byteLength;
      if (batch.length === MANY_TASKS) await send();
    }
    if (batch.length > 0) await send();
    return outcomes;
  }

  /** A task to be enqueued as a part of `client.update()`, of `task.complete({ enqueue })`, or of a handler's result. */
  task(data: In, options?: TaskOptions): NewTask {
    return newTask(this, data, options);
  }

  /**
   * Leases the first tasks, each exclusively until its lease ends. Resolves with none when there are none within `wait`.
   * A payload that cannot be read does not reject: its task's `data` throws `InvalidDataError`, so that the task can be
   * released, or completed, like any other. Safe to give up: what was leased meanwhile is given back.
   */
  lease(options: LeaseOptions = {}): Promise<LeasedTask<T>[]> {
    return leaseTasks<T>(this.#context, [this], options);
  }

  /** Counts and rates; zeros when the queue holds no tasks. */
  async stats(options: CallOptions = {}): Promise<QueueStats> {
    const request = { queues: [this.name], filter: undefined };
    const { queues } = await this.#read('getQueueStats', options, (attempt) =>
      this.#context.caller.transport.getQueueStats(request, attempt),
    );
    const [stats] = queues;
    if (stats === undefined) throw brokenReply('left out the statistics of the queue');
    return stats;
  }

  /** Shows tasks without leasing them; with `data: false` without their data. */
  peek(options?: PeekOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  peek(options: PeekOptions & { readonly data: false }): Promise<TaskSummary[]>;
  peek(options: PeekOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async peek(options: PeekOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    const includeData = options.data ?? true;
    const kind = peekKinds[options.kind ?? 'head'];
    if (kind === undefined) throw new TypeError(`kind: '${options.kind}' is not 'head', 'leased' or 'delayed'`);
    const request = { queue: this.name, kind, limit: options.limit ?? 10, includeData };
    const { tasks } = await this.#read('peekTasks', options, (attempt) =>
      this.#context.caller.transport.peekTasks(request, attempt),
    );
    return this.#shown(tasks, includeData);
  }

  /** The state of the tasks of these PIDs, at most 1,000, in their order; with `data: false` without their data. */
  get(pids: readonly PidLike[], options?: GetOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  get(pids: readonly PidLike[], options: GetOptions & { readonly data: false }): Promise<TaskSummary[]>;
  get(pids: readonly PidLike[], options: GetOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async get(pids: readonly PidLike[], options: GetOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    const includeData = options.data ?? true;
    const request = { queue: this.name, pids: pids.map(pidBytes), includeData };
    const { tasks } = await this.#read('getTasks', options, (attempt) =>
      this.#context.caller.transport.getTasks(request, attempt),
    );
    return this.#shown(tasks, includeData);
  }

  /** Deletes the queue with all its tasks, leased ones too, in constant time. Resolves with how many there were. */
  async delete(options: CallOptions = {}): Promise<number> {
    const { caller } = this.#context;
    const { deletedTasks } = await caller.call('deleteQueue', 'unsafe', options, (attempt) =>
      caller.transport.deleteQueue({ queue: this.name }, attempt),
    );
    return deletedTasks;
  }

  /** Makes every leased task available now; their holders have lost them. Resolves with how many there were. */
  async resetLeases(options: CallOptions = {}): Promise<number> {
    const { caller } = this.#context;
    const { resetTasks } = await caller.call('resetLeases', 'unsafe', options, (attempt) =>
      caller.transport.resetLeases({ queue: this.name }, attempt),
    );
    return resetTasks;
  }

  async #shown(tasks: readonly WireInfo[], withData: boolean): Promise<(TaskInfo<T> | TaskSummary)[]> {
    return withData ? Promise.all(tasks.map((task) => taskInfo(this, task))) : tasks.map(taskSummary);
  }

  #read<Reply>(
    operation: string,
    options: CallOptions,
    attempt: (options: TransportCallOptions) => Promise<Reply>,
  ): Promise<Reply> {
    return this.#context.caller.call(operation, 'read', options, attempt);
  }
}

function onlyOutcome([outcome]: readonly EnqueueOutcome[]): EnqueueOutcome {
  if (outcome === undefined) throw brokenReply('left out the outcome of the enqueue');
  return outcome;
}
