import { type Enqueue, limits, methods, PeekKind, type QueueStats, type TaskInfo as WireInfo } from '@taskmaster/proto';
import { emptyRequest, partId, requestIdOf } from '../calls/update-request.ts';
import { type ClientContext, CONTEXT } from '../tasks/context.ts';
import { type FlowOfTask, flowOf } from '../tasks/flow-of.ts';
import { type LeaseOptions, leaseNames, leaseTasks } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import {
  canonicalName,
  FORMAT,
  type NewTask,
  newTask,
  prepareEnqueue,
  type QueueFormat,
  type QueueRef,
  type TaskOptions,
  taskNames,
} from '../tasks/new-task.ts';
import {
  newSignal,
  type ReadSignalsOptions,
  type ReceivedSignal,
  readSignals,
  type SignalOptions,
} from '../tasks/signals.ts';
import { getInfos, type TaskInfo, type TaskSummary, taskInfo, taskSummary } from '../tasks/task-info.ts';
import { type EnqueueOutcome, enqueueOutcome, type SignalResult, Update } from '../tasks/update.ts';
import { resultOf, type TaskEnd, type WaitForOptions, waitForEnd } from '../tasks/wait-for.ts';
import { headersSizeBound } from '../transport/request-size.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import type { Duration } from '../values/duration.ts';
import { kindPatterns, ofKind } from '../values/kinds.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions, UpdateOptions } from '../values/options.ts';
import { callNames, updateNames } from '../values/options.ts';
import { type PidLike, pidBytes } from '../values/pid.ts';
import { nameFields, type TaskName } from '../values/task-name.ts';
import {
  type LimitInfo,
  type LimitKeysOptions,
  type LimitOptions,
  limitQueues,
  type UnlimitOutcome,
  unlimitQueues,
} from './limits.ts';
import { type PauseInfo, type PauseOptions, pauseQueues, type ResumeOutcome, resumeQueues } from './pauses.ts';

export interface EnqueueOptions extends TaskOptions, UpdateOptions {}

export interface PeekOptions extends CallOptions {
  /**
   * `head` (default): available tasks in the order in which they would be leased. `leased`, `delayed`: a sample, first the tasks
   * that become available first. `waiting`: a sample of those that wait for signals or for their order.
   */
  readonly kind?: 'head' | 'leased' | 'delayed' | 'waiting' | undefined;
  /** For `head`: only tasks with larger PIDs than this one, to read a queue in pages. */
  readonly after?: PidLike | undefined;
  /** Only tasks of these kinds, as in `LeaseOptions.kinds`. Default: all tasks. */
  readonly kinds?: readonly string[] | undefined;
  /** Largest number of tasks, 1 to 1,000. Default 10. */
  readonly limit?: number | undefined;
  /** Whether to read the payloads too. Default true. */
  readonly data?: boolean | undefined;
}

export interface GetOptions extends CallOptions {
  /** Whether to read the payloads too. Default true. */
  readonly data?: boolean | undefined;
}

export interface CancelOptions extends UpdateOptions {
  /** Why, at most 256 bytes. Default: none. */
  readonly reason?: string | undefined;
}

const enqueueNames: OptionNames<EnqueueOptions> = { ...taskNames, ...updateNames };
const itemNames = { ...taskNames, data: true } as const;
const peekNames: OptionNames<PeekOptions> = {
  ...callNames,
  kind: true,
  after: true,
  kinds: true,
  limit: true,
  data: true,
};
const getNames: OptionNames<GetOptions> = { ...callNames, data: true };
export const cancelNames: OptionNames<CancelOptions> = { ...updateNames, reason: true };

const peekKinds = {
  head: PeekKind.PEEK_KIND_HEAD,
  leased: PeekKind.PEEK_KIND_LEASED,
  delayed: PeekKind.PEEK_KIND_DELAYED,
  waiting: PeekKind.PEEK_KIND_WAITING,
} as const;

/** Limits of one request of `enqueueMany`: number of tasks, bytes of payload. */
const MANY_TASKS = 1_000;
const MANY_BYTES = limits.requestBytes / 4;

const NO_OPTIONS: EnqueueOptions = {};
const NO_PID = new Uint8Array(0);

/**
 * A queue with data of type `T`. `In` is the type of data to enqueue; it differs from `T` if a schema transforms the data. `R` is
 * the type of results, and `RIn` the one of results that handlers return.
 * `client.queue(name)` makes one without a request: a queue exists while it holds tasks.
 */
export class Queue<T, In = T, R = unknown, RIn = R> implements QueueRef<T, In, R, RIn> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly #format: QueueFormat<T, In, R, RIn>;
  readonly #context: ClientContext;

  /** Internal: use `client.queue()`. */
  constructor(context: ClientContext, name: string, format: QueueFormat<T, In, R, RIn>) {
    this.name = canonicalName(name);
    this.#format = format;
    this.#context = context;
  }

  /** Internal. */
  get [FORMAT](): QueueFormat<T, In, R, RIn> {
    return this.#format;
  }

  /** Internal. */
  get [CONTEXT](): ClientContext {
    return this.#context;
  }

  /** The kind of its tasks, as far as this object is concerned. Undefined: any. */
  get kind(): string | undefined {
    return this[FORMAT].kind;
  }

  /**
   * Adds a task. Resolves when it is on disk. The client joins concurrent calls into few requests; each call still succeeds or
   * fails alone.
   * @throws InvalidDataError before the request is sent; TaskExistsError with `mode: 'fail'`; OverloadedError, DiskFullError,
   * UnavailableError, DeadlineExceededError, CancelledError.
   */
  async enqueue(data: In, options: EnqueueOptions = NO_OPTIONS): Promise<EnqueueOutcome> {
    assertKnown('enqueue', options, enqueueNames);
    const item = prepareEnqueue(this, data, options);
    const request = emptyRequest();
    request.enqueue.push(item instanceof Promise ? await item : item);
    const { enqueued } = await this[CONTEXT].telemetry.send(request, options);
    return onlyOutcome(enqueued.map(enqueueOutcome));
  }

  /**
   * Adds many tasks in order, with one request after the other for each 1,000 tasks or each MiB of payload. Each request is
   * atomic, the whole call is not: after an error some tasks may be in the queue. For all or nothing use `client.update()`.
   *
   * With a `requestId` the call can be repeated with the same items after an error: requests that were applied get their first
   * outcomes, and the others are applied. This holds within the window of the first request id.
   */
  async enqueueMany(
    items: Iterable<TaskOptions & { readonly data: In }>,
    options: UpdateOptions = {},
  ): Promise<EnqueueOutcome[]> {
    assertKnown('enqueueMany', options, updateNames);
    if (typeof items !== 'object' || items === null || !(Symbol.iterator in items))
      throw new TypeError('enqueueMany: must be a list of { data, … }');
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
      const { enqueued } = await this[CONTEXT].telemetry.send(request, { ...options, requestId });
      for (const outcome of enqueued) outcomes.push(enqueueOutcome(outcome));
    };
    for (const item of items) {
      assertKnown('an item of enqueueMany', item, itemNames);
      const prepared = await prepareEnqueue(this, item.data, item);
      const size = prepared.data.byteLength + headersSizeBound(prepared.headers);
      if (bytes > 0 && bytes + size > MANY_BYTES) await send();
      batch.push(prepared);
      bytes += size;
      if (batch.length === MANY_TASKS) await send();
    }
    if (batch.length > 0) await send();
    return outcomes;
  }

  /** A task for `client.update()`, for `task.complete({ enqueue })`, or for the result of a handler. */
  task(data: In, options?: TaskOptions): NewTask {
    assertKnown('task', options, taskNames);
    return newTask(this, data, options);
  }

  /**
   * Signals a task that waits, named by its PID or as `{ key }`. If the queue has no such task, the signal is kept for 24
   * hours, for a task that is enqueued later (`kept`). A signal that came before, or to a task that does not wait, changes
   * nothing (`collapsed`).
   * @throws InvalidDataError if its data cannot be encoded.
   */
  async signal(
    task: TaskName,
    { id, data, codec, ...options }: SignalOptions & UpdateOptions = {},
  ): Promise<SignalResult> {
    assertKnown('signal', options, updateNames);
    const { signals } = await new Update(this[CONTEXT]).signal(this, task, { id, data, codec }).commit(options);
    const [result] = signals;
    if (result === undefined) throw brokenReply('left out the outcome of the signal');
    return result;
  }

  /** A signal for the result of a handler, or for `task.complete({ enqueue })`. */
  signalFor(task: TaskName, options?: SignalOptions): NewTask {
    return newSignal(this, task, options);
  }

  /**
   * A task with what is known of its flow: the tasks for which it has waited and that have ended, and those that wait for it. Its
   * tasks are read one after the other, so they need not be of one moment.
   */
  flowOf(task: TaskName, options: CallOptions = {}): Promise<FlowOfTask> {
    assertKnown('flowOf', options, callNames);
    return flowOf(this[CONTEXT], this.name, task, options);
  }

  /**
   * The signals that a task has got and that say something. None if there is no such task.
   * @throws InvalidDataError if data cannot be decoded.
   */
  signals<R = unknown>(task: TaskName, options: ReadSignalsOptions<R> = {}): Promise<readonly ReceivedSignal<R>[]> {
    return readSignals(this[CONTEXT], this.name, task, options);
  }

  /**
   * Leases the first tasks, each exclusively until its lease ends. Resolves with an empty list if there is no task within `wait`.
   * If a payload cannot be read, the call still resolves and `data` of this task throws `InvalidDataError`, so that the task can
   * be released or completed like any other. If the signal is aborted, tasks that were leased meanwhile are released.
   */
  async lease(options: LeaseOptions = {}): Promise<LeasedTask<T>[]> {
    assertKnown('lease', options, leaseNames);
    return leaseTasks<T>(this[CONTEXT], { queues: [this], anyOrder: false }, ofKind(this.kind, options));
  }

  /**
   * Waits until the task is completed. Resolves with its result, or with undefined if it left none. It does not matter whether
   * the task is enqueued, leased or completed already, as long as its result is kept.
   * @throws TaskNotCompletedError if it went to its dead-letter queue or was removed; TaskNotFoundError if it is not in the queue
   * and has left no result; DeadlineExceededError after `timeout`; InvalidDataError if the result cannot be decoded, or does not
   * fit the queue's schema of results.
   */
  async waitFor<Result = R>(pid: PidLike, options: WaitForOptions<Result> = {}): Promise<Result | undefined> {
    return resultOf(await this.waitForEnd(pid, options), this.name, pidBytes(pid));
  }

  /** As `waitFor`, but resolves whichever way the task ends. @throws DeadlineExceededError, InvalidDataError. */
  async waitForEnd<Result = R>(pid: PidLike, options: WaitForOptions<Result> = {}): Promise<TaskEnd<Result>> {
    return waitForEnd(this[CONTEXT], this.name, pidBytes(pid), options, this[FORMAT].resultSchema);
  }

  /** Counts and rates. They are 0 if the queue holds no tasks. */
  async stats(options: CallOptions = {}): Promise<QueueStats> {
    assertKnown('stats', options, callNames);
    const request = { queues: [this.name], filter: undefined };
    const { queues } = await this[CONTEXT].calls.call(methods.getQueueStats, request, options);
    const [stats] = queues;
    if (stats === undefined) throw brokenReply('left out the statistics of the queue');
    return stats;
  }

  /** Reads tasks without leasing them, with `data: false` without their data. */
  peek(options?: PeekOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  peek(options: PeekOptions & { readonly data: false }): Promise<TaskSummary[]>;
  peek(options: PeekOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async peek(options: PeekOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    assertKnown('peek', options, peekNames);
    const includeData = options.data ?? true;
    const kind = peekKinds[options.kind ?? 'head'];
    if (kind === undefined)
      throw new TypeError(`kind: '${options.kind}' is not 'head', 'leased', 'delayed' or 'waiting'`);
    const afterPid = options.after === undefined ? NO_PID : pidBytes(options.after);
    if (options.kinds !== undefined && !Array.isArray(options.kinds))
      throw new TypeError('kinds is not a list of kinds: did you mean kind?');
    const kinds = kindPatterns(ofKind(this.kind, options).kinds);
    const request = { queue: this.name, kind, limit: options.limit ?? 10, includeData, afterPid, kinds };
    const { tasks } = await this[CONTEXT].calls.call(methods.peekTasks, request, options);
    return this.#shown(tasks, includeData);
  }

  /**
   * The state of tasks, each named by its PID or as `{ key }`, in their order. At most 1,000. With `data: false` without their
   * data. A task that was not found by its key has an empty PID.
   */
  get(names: readonly TaskName[], options?: GetOptions & { readonly data?: true | undefined }): Promise<TaskInfo<T>[]>;
  get(names: readonly TaskName[], options: GetOptions & { readonly data: false }): Promise<TaskSummary[]>;
  get(names: readonly TaskName[], options: GetOptions): Promise<(TaskInfo<T> | TaskSummary)[]>;
  async get(names: readonly TaskName[], options: GetOptions = {}): Promise<(TaskInfo<T> | TaskSummary)[]> {
    assertKnown('get', options, getNames);
    const includeData = options.data ?? true;
    if (!Array.isArray(names)) throw new TypeError('get: must be a list of tasks, each a PID or { key }');
    const fields = (names as readonly TaskName[]).map(nameFields);
    const byPid = fields.filter(({ key }) => key === undefined);
    const keys = fields.flatMap(({ key }) => key ?? []);
    const request = { queue: this.name, pids: byPid.map(({ pid }) => pid), keys, includeData };
    const tasks = await getInfos(this[CONTEXT], request, options);
    // The reply has the tasks of the PIDs first.
    let [ofPid, ofKey] = [0, byPid.length];
    if (tasks.length < names.length) throw brokenReply('left out tasks');
    const inOrder = fields.flatMap(({ key }) => tasks[key === undefined ? ofPid++ : ofKey++] ?? []);
    return this.#shown(inOrder, includeData);
  }

  /**
   * Cancels a task, named by its PID or as `{ key }`. One that waits is removed. A leased one is removed when its attempt ends,
   * unless its worker completes it; the signal of the worker's task is aborted within about a second. The worker and waits get
   * the reason, at most 256 bytes.
   * @throws TaskNotFoundError.
   */
  async cancel(task: TaskName, options: CancelOptions = {}): Promise<void> {
    assertKnown('cancel', options, cancelNames);
    await new Update(this[CONTEXT], true).cancel(this, task, options.reason).commit(options);
  }

  /**
   * Changes when a waiting task, available or delayed, becomes available: at a date by the node's clock, or after a duration. The
   * task is named by its PID or as `{ key }`. Resolves with that instant; undefined: now.
   * @throws TaskNotFoundError; TaskMasterError with the reason `TASK_LEASED` if a worker has leased the task.
   */
  async reschedule(task: TaskName, when: Duration | Date, options: UpdateOptions = {}): Promise<Date | undefined> {
    const { released } = await new Update(this[CONTEXT]).reschedule(this, task, when).commit(options);
    return released[0]?.hiddenUntil;
  }

  /** Deletes the queue and all its tasks, also leased tasks, in constant time. Resolves with the number of tasks. */
  async delete(options: CallOptions = {}): Promise<number> {
    assertKnown('delete', options, callNames);
    const { deletedTasks } = await this[CONTEXT].calls.call(methods.deleteQueue, { queue: this.name }, options);
    return deletedTasks;
  }

  /** Makes all leased tasks available now. Their workers lose them. Resolves with the number of tasks. */
  async resetLeases(options: CallOptions = {}): Promise<number> {
    assertKnown('resetLeases', options, callNames);
    const { resetTasks } = await this[CONTEXT].calls.call(methods.resetLeases, { queue: this.name }, options);
    return resetTasks;
  }

  /**
   * Pauses the queue: no task of it is leased until `resume`, or until the pause ends by itself. Lease requests and workers wait;
   * everything else goes on. Again: changes the reason and the end. The pause stays if the queue is deleted.
   * @throws InvalidRequestError, PermissionDeniedError; TypeError if the queue's name contains `*`: see `client.pauseQueues`.
   */
  async pause(options: PauseOptions = {}): Promise<PauseInfo> {
    return pauseQueues(this[CONTEXT], this.#alone('pause'), options);
  }

  /** Ends the pause of this queue. Pauses of patterns that match it go on. */
  async resume(options: CallOptions = {}): Promise<ResumeOutcome> {
    return resumeQueues(this[CONTEXT], this.#alone('resume'), options);
  }

  /**
   * Limits how many tasks of the queue are leased, at once or in a time. Lease requests and workers wait until one may be leased.
   * Again: replaces the limit. The limit stays if the queue is deleted.
   * @throws InvalidRequestError, PermissionDeniedError; TypeError if the queue's name contains `*`: see `client.limitQueues`.
   */
  async limit(options: LimitOptions): Promise<LimitInfo> {
    return limitQueues(this[CONTEXT], this.#alone('limit'), options);
  }

  /** Ends the limit of this queue. Limits of patterns that match it stay. */
  async unlimit(options: LimitKeysOptions = {}): Promise<UnlimitOutcome> {
    return unlimitQueues(this[CONTEXT], this.#alone('unlimit'), options);
  }

  /** The name of the queue, which is not a pattern. */
  #alone(what: string): string {
    if (this.name.includes('*')) throw new TypeError(`${what}: '${this.name}' is a pattern: use client.${what}Queues`);
    return this.name;
  }

  async #shown(tasks: readonly WireInfo[], withData: boolean): Promise<(TaskInfo<T> | TaskSummary)[]> {
    return withData ? Promise.all(tasks.map((task) => taskInfo(this, task))) : tasks.map(taskSummary);
  }
}

function onlyOutcome([outcome]: readonly EnqueueOutcome[]): EnqueueOutcome {
  if (outcome === undefined) throw brokenReply('left out the outcome of the enqueue');
  return outcome;
}
