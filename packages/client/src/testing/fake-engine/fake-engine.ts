import { isDeepStrictEqual } from 'node:util';
import {
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  EnqueueMode,
  EnqueueResult,
  type GetQueueStatsRequest,
  type GetQueueStatsResponse,
  type GetTasksRequest,
  type GetTasksResponse,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type PeekTasksRequest,
  type PeekTasksResponse,
  parseQueueName,
  partitionOf,
  type QueueStats,
  type TaskInfo,
  TaskOutcome,
  TaskState,
  type UnsubscribeRequest,
  type UnsubscribeResponse,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import type { CancelTimer, Timing } from '../../transport/timing.ts';
import { asTaskMasterError } from '../../transport/wire-errors.ts';
import { makeError, type TaskMasterError } from '../../values/errors.ts';
import { wireError } from '../wire-error.ts';
import { FakeEnds } from './fake-ends.ts';
import {
  addFailure,
  backoffMs,
  type FakeTask,
  infoOf,
  isRerun,
  keyOf,
  leasedOf,
  leaseEnd,
  newFakeTask,
  PEEKED,
  renewed,
  reorder,
  replacePayload,
  rerun,
  statsOf,
} from './fake-task.ts';
import { FakeTopics } from './fake-topics.ts';
import { type ItemView, refusedItems, withPids } from './refused-items.ts';
import { updateRefused } from './update-refused.ts';

/** Number of partitions, as of a node by default. */
const PARTITIONS = 1024;
const NO_PID = new Uint8Array(0);

interface Waiter {
  readonly request: LeaseTasksRequest;
  readonly resolve: (reply: LeaseTasksResponse) => void;
  cancelTimer: CancelTimer | undefined;
}

/**
 * A simple engine for tests: tasks are in memory and are sorted when they are read. Nothing is durable, and names are not
 * checked. Its clock is the time of `timing`, counted from 1970.
 */
export class FakeEngine {
  /** All updates, also refused ones. */
  readonly updates: UpdateTasksRequest[] = [];
  /** All lease requests. */
  readonly leases: LeaseTasksRequest[] = [];
  readonly topics: FakeTopics;
  /** Refuses an update or a part with the returned error. */
  refusal: ((request: UpdateTasksRequest) => TaskMasterError | undefined) | undefined;
  readonly #timing: Timing;
  readonly #items: ItemView = {
    find: (queue, pid) => this.#find(queue, pid),
    ofKey: (queue, key) => this.#ofKey(queue, key),
    stateOf: (task) => this.#stateOf(task),
    targetsOf: (item) => this.topics.targetsOf(item),
  };
  readonly #queues = new Map<string, Map<string, FakeTask>>();
  readonly #outcomes = new Map<string, { readonly of: UpdateTasksRequest; readonly outcome: UpdateTasksResponse }>();
  readonly #completed = new Map<string, number>();
  readonly ends: FakeEnds;
  #waiters: Waiter[] = [];
  #cancelWake: CancelTimer = () => {};
  #lastToken = 0;
  #lastPid = 0;

  constructor(timing: Timing) {
    this.#timing = timing;
    this.ends = new FakeEnds(timing, (queue, pid) => this.#find(queue, pid));
    this.topics = new FakeTopics(timing);
  }

  /** A backup that counts the tasks but has no rows. @throws TaskMasterError */
  backup({ partition }: BackupPartitionRequest): BackupPartitionResponse[] {
    if (partition >= PARTITIONS) throw makeError('there is no such partition', { reason: 'INVALID_ARGUMENT' });
    const queues = [...this.#queues].filter(
      ([name]) => partitionOf(parseQueueName(name).group, PARTITIONS) === partition,
    );
    const tasks = queues.reduce((sum, [, { size }]) => sum + size, 0);
    const header = {
      formatVersion: 1,
      clusterId: '',
      nodeId: 'fake',
      partition,
      partitions: PARTITIONS,
      epoch: 0,
      nowMs: 0,
      ticket: this.#lastToken,
      nextQueueId: 1,
      unchanged: false,
      requestWindowMs: 120_000,
      tasks,
    };
    return [
      { part: { $case: 'header', value: header } },
      { part: { $case: 'end', value: { lastTicket: this.#lastToken, tasks, queues: queues.length } } },
    ];
  }

  /** @throws TaskMasterError */
  update(request: UpdateTasksRequest): UpdateTasksResponse {
    this.updates.push(request);
    const requestId = Buffer.from(request.requestId).toString('latin1');
    const before = this.#outcomes.get(requestId);
    if (requestId !== '' && before !== undefined) {
      if (isDeepStrictEqual(before.of, request)) return before.outcome;
      throw makeError('the id was used for a different request', { reason: 'REQUEST_ID_REUSED' });
    }
    const outcome = request.parts.length === 0 ? this.#decide(request) : this.#decideParts(request);
    if (requestId !== '') this.#outcomes.set(requestId, { of: request, outcome });
    this.#serveWaiters();
    return outcome;
  }

  #decide(request: UpdateTasksRequest): UpdateTasksResponse {
    const refusal = this.refusal?.(request);
    if (refusal !== undefined) throw refusal;
    const named = withPids(request, this.#items);
    const refused = refusedItems(named, this.#items);
    const [first] = refused;
    if (first !== undefined) throw updateRefused(first, refused);
    return this.#apply(named);
  }

  #decideParts(request: UpdateTasksRequest): UpdateTasksResponse {
    const all: UpdateTasksResponse = { enqueued: [], renewed: [], released: [], refused: [] };
    const left = structuredClone({ ...request });
    for (const [part, { enqueues, dequeues, renewals, releases }] of request.parts.entries()) {
      const update = {
        ...request,
        enqueue: left.enqueue.splice(0, enqueues),
        dequeue: left.dequeue.splice(0, dequeues),
        renew: left.renew.splice(0, renewals),
        release: left.release.splice(0, releases),
      };
      try {
        const { enqueued, renewed, released } = this.#decide(update);
        all.enqueued.push(...enqueued);
        all.renewed.push(...renewed);
        all.released.push(...released);
      } catch (thrown) {
        all.refused.push({ part, error: wireError(asTaskMasterError(thrown)) });
      }
    }
    return all;
  }

  lease(request: LeaseTasksRequest, signal?: AbortSignal): Promise<LeaseTasksResponse> {
    this.leases.push(request);
    const tasks = this.#leaseNow(request);
    if (tasks.length > 0 || request.waitMs === 0) return Promise.resolve(this.#leased(request, tasks));
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { request, resolve, cancelTimer: undefined };
      const leave = (): void => {
        waiter.cancelTimer?.();
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        this.#wakeInTime();
      };
      waiter.cancelTimer = this.#timing.after(request.waitMs, () => {
        leave();
        resolve({ tasks: [], moreQueues: [] });
      });
      this.#waiters.push(waiter);
      this.#wakeInTime();
      signal?.addEventListener('abort', () => {
        leave();
        reject(makeError('given up', { reason: 'CANCELLED' }));
      });
    });
  }

  /** Number of waiting lease requests. */
  get waiting(): number {
    return this.#waiters.length;
  }

  get(request: GetTasksRequest): GetTasksResponse {
    const { queue, pids, keys, includeData } = request;
    const byKey = keys.map((key) => {
      const task = this.#ofKey(queue, key);
      return { ...this.#info(queue, task?.pid ?? NO_PID, includeData), key };
    });
    return { tasks: [...pids.map((pid) => this.#info(queue, pid, includeData)), ...byKey] };
  }

  peek(request: PeekTasksRequest): PeekTasksResponse {
    const state = PEEKED[request.kind] ?? TaskState.TASK_STATE_AVAILABLE;
    const tasks = this.#sorted(request.queue)
      .filter((task) => this.#stateOf(task) === state && Buffer.compare(task.pid, request.afterPid) > 0)
      .slice(0, request.limit)
      .map(({ pid }) => this.#info(request.queue, pid, request.includeData));
    return { tasks };
  }

  stats(request: GetQueueStatsRequest): GetQueueStatsResponse {
    const names = request.queues.length > 0 ? request.queues : [...this.#queues.keys()].sort();
    const queues = names.map((name) => this.#stats(name));
    const sum = (field: 'available' | 'leased' | 'delayed' | 'completed'): number =>
      queues.reduce((total, stats) => total + stats[field], 0);
    const totals = {
      queues: queues.length,
      available: sum('available'),
      leased: sum('leased'),
      delayed: sum('delayed'),
      completed: sum('completed'),
    };
    return { queues, totals, unreachable: [] };
  }

  deleteQueue(queue: string): number {
    const tasks = this.#sorted(queue);
    this.#queues.delete(queue);
    for (const { pid } of tasks) this.ends.note(queue, pid, TaskOutcome.TASK_OUTCOME_REMOVED);
    return tasks.length;
  }

  unsubscribe(request: UnsubscribeRequest): UnsubscribeResponse {
    const ended = this.topics.end(request);
    return { existed: ended !== undefined, deletedTasks: ended?.deleteQueue ? this.deleteQueue(ended.queue) : 0 };
  }

  resetLeases(queue: string): number {
    const leased = this.#sorted(queue).filter((task) => this.#stateOf(task) === TaskState.TASK_STATE_LEASED);
    for (const task of leased) {
      task.hiddenUntil = 0;
      task.worker = undefined;
      task.token = ++this.#lastToken;
      this.ends.changed(queue, task);
    }
    this.#serveWaiters();
    return leased.length;
  }

  /** PIDs of a queue as text, in order. */
  pids(queue: string): string[] {
    return this.#sorted(queue).map(({ pid }) => pid.toString('utf8'));
  }

  #apply(request: UpdateTasksRequest): UpdateTasksResponse {
    const now = this.#timing.now();
    for (const { queue, pid, leaseToken, requeue, result, cancelReason } of request.dequeue) {
      const task = this.#find(queue, pid);
      if (task !== undefined && cancelReason !== undefined) {
        this.#cancel(queue, task, cancelReason, now);
        continue;
      }
      if (task?.rerun && leaseToken !== 0) {
        Object.assign(task, { attempts: 0, token: 0, hiddenUntil: 0, rerun: false, worker: undefined, failures: [] });
        task.progress = { at: 0, text: '' };
        continue;
      }
      this.#queues.get(queue)?.delete(keyOf(pid));
      const isDone = !requeue && (leaseToken !== 0 || result !== undefined);
      const outcome = isDone ? TaskOutcome.TASK_OUTCOME_COMPLETED : TaskOutcome.TASK_OUTCOME_REMOVED;
      this.ends.note(queue, pid, outcome, { result: result && Buffer.from(result), attempts: task?.attempts ?? 0 });
      if (requeue && task?.origin !== undefined) {
        const { queue: target, retry } = task.origin;
        const anew = { retry, attempts: 0, token: 0, hiddenUntil: 0, origin: undefined };
        this.#queueOf(target).set(keyOf(pid), { ...task, ...anew });
        continue;
      }
      this.#completed.set(queue, (this.#completed.get(queue) ?? 0) + 1);
    }
    const renewals = request.renew.map((item) => renewed(this.#find(item.queue, item.pid), item, now));
    const released = request.release.map(
      ({ queue, pid, delayMs: givenMs, runAtUnixMs, refundAttempt, error, deadLetter, waiting }) => {
        const task = this.#find(queue, pid);
        if (task === undefined) return { hiddenUntilUnixMs: 0, deadLetterQueue: '' };
        if (task.cancelled !== undefined) {
          this.#endCancelled(queue, task, task.cancelled.reason);
          return { hiddenUntilUnixMs: 0, deadLetterQueue: '' };
        }
        const delayMs = givenMs ?? (refundAttempt || waiting ? 0 : backoffMs(task));
        if (refundAttempt) task.attempts--;
        if (error !== undefined) addFailure(task, error, now);
        task.worker = undefined;
        task.hiddenUntil = runAtUnixMs > 0 ? runAtUnixMs : delayMs === 0 ? 0 : now + delayMs;
        if (waiting) return { hiddenUntilUnixMs: Math.round(task.hiddenUntil), deadLetterQueue: '' };
        return this.#afterRelease(queue, task, deadLetter);
      },
    );
    const enqueued = request.enqueue.map((item) =>
      item.topic === '' ? this.#enqueue(item, now) : this.#publish(item, now),
    );
    return { enqueued, renewed: renewals, released, refused: [] };
  }

  #cancel(queue: string, task: FakeTask, reason: string, now: number): void {
    task.cancelled ??= { at: now, reason };
    if (this.#stateOf(task) === TaskState.TASK_STATE_LEASED) this.ends.changed(queue, task);
    else this.#endCancelled(queue, task, reason);
  }

  #endCancelled(queue: string, { pid, attempts }: FakeTask, cancelReason: string): void {
    this.#queues.get(queue)?.delete(keyOf(pid));
    this.ends.note(queue, pid, TaskOutcome.TASK_OUTCOME_CANCELLED, { attempts, cancelReason });
  }

  #afterRelease(queue: string, task: FakeTask, isDead: boolean): UpdateTasksResponse['released'][number] {
    const { retry } = task;
    const isLast = retry !== undefined && retry.maxAttempts > 0 && task.attempts >= retry.maxAttempts;
    if (task.rerun) task.attempts = 0;
    if (task.rerun || (!isLast && !isDead)) {
      return { hiddenUntilUnixMs: Math.round(task.hiddenUntil), deadLetterQueue: '' };
    }
    const deadLetterQueue = retry?.deadLetterQueue || `${queue}.dead`;
    this.#queues.get(queue)?.delete(keyOf(task.pid));
    this.#queueOf(deadLetterQueue).set(keyOf(task.pid), {
      ...task,
      hiddenUntil: 0,
      retry: undefined,
      origin: { queue, retry },
    });
    const error = task.failures.at(-1)?.error;
    const rest = { attempts: task.attempts, error: error && { message: error.message, details: '' } };
    this.ends.note(queue, task.pid, TaskOutcome.TASK_OUTCOME_DEAD_LETTERED, rest);
    return { hiddenUntilUnixMs: 0, deadLetterQueue };
  }

  #publish(item: UpdateTasksRequest['enqueue'][number], now: number): UpdateTasksResponse['enqueued'][number] {
    const tasks = this.topics.targetsOf(item).map((target) => ({ ...this.#enqueue(target, now), queue: target.queue }));
    const result = EnqueueResult.ENQUEUE_RESULT_PUBLISHED;
    return { pid: Buffer.from(item.pid), result, leased: false, published: { tasks } };
  }

  #enqueue(item: UpdateTasksRequest['enqueue'][number], now: number): UpdateTasksResponse['enqueued'][number] {
    const pid = Buffer.from(item.pid.byteLength > 0 ? item.pid : `fifo-${String(++this.#lastPid).padStart(9, '0')}`);
    const queue = this.#queueOf(item.queue);
    const keyed = item.key === '' ? undefined : this.#ofKey(item.queue, item.key);
    if (keyed !== undefined && !keyed.pid.equals(pid)) {
      return { ...reorder(queue, keyed, { ...item, pid }, now), published: undefined };
    }
    const existing = keyed ?? this.#find(item.queue, pid);
    if (existing === undefined) {
      queue.set(keyOf(pid), newFakeTask(pid, item, now));
      return { pid, result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false, published: undefined };
    }
    const leased = existing.worker !== undefined && existing.hiddenUntil > now;
    if (isRerun(item)) return { pid, result: rerun(existing, item, leased), leased, published: undefined };
    if (item.mode !== EnqueueMode.ENQUEUE_MODE_REPLACE) {
      return { pid, result: EnqueueResult.ENQUEUE_RESULT_COLLAPSED, leased, published: undefined };
    }
    replacePayload(existing, item);
    return { pid, result: EnqueueResult.ENQUEUE_RESULT_REPLACED, leased, published: undefined };
  }

  #leased(request: LeaseTasksRequest, tasks: LeaseTasksResponse['tasks']): LeaseTasksResponse {
    const more = [...this.#sourcesOf(request)].flatMap(([queue, patternId]) => {
      const hasTasks = this.#sorted(queue).some((task) => this.#stateOf(task) === TaskState.TASK_STATE_AVAILABLE);
      return patternId > 0 && hasTasks ? [{ queue, patternId }] : [];
    });
    return { tasks, moreQueues: more.slice(0, request.maxMoreQueues) };
  }

  /** The queues of a request in order, with the ids of the patterns that they match. 0: it is named. */
  #sourcesOf({ queues, patterns }: LeaseTasksRequest): Map<string, number> {
    const sources = new Map<string, number>();
    for (const { nameRegex, group, afterQueues, id } of patterns) {
      for (const queue of queues.slice(0, afterQueues)) sources.set(queue, 0);
      const isOfPattern = new RegExp(nameRegex);
      for (const queue of this.#queues.keys()) {
        const isOfGroup = group === undefined || parseQueueName(queue).group === group;
        if (isOfGroup && isOfPattern.test(queue) && !queues.includes(queue) && !sources.has(queue))
          sources.set(queue, id);
      }
    }
    for (const queue of queues) sources.set(queue, 0);
    return sources;
  }

  #leaseNow(request: LeaseTasksRequest): LeaseTasksResponse['tasks'] {
    const { maxTasks, leaseDurationMs: givenMs, maxPid, workerLabel: worker } = request;
    const now = this.#timing.now();
    const available = [...this.#sourcesOf(request)].map(([queue, patternId]) =>
      this.#sorted(queue)
        .filter((task) => this.#stateOf(task) === TaskState.TASK_STATE_AVAILABLE)
        .filter(({ pid }) => maxPid.byteLength === 0 || Buffer.compare(pid, maxPid) <= 0)
        .map((task) => ({ queue, patternId, task })),
    );
    const matching = available.filter(([first]) => first !== undefined && first.patternId > 0).length;
    const part = Math.ceil(maxTasks / Math.max(1, matching));
    const found = available.flatMap((tasks) => ((tasks[0]?.patternId ?? 0) > 0 ? tasks.slice(0, part) : tasks));
    return found.slice(0, maxTasks).map(({ queue, patternId, task }) => {
      task.token = ++this.#lastToken;
      task.rerun = false;
      task.attempts++;
      task.leasedAt = now;
      task.hiddenUntil = leaseEnd(task, givenMs, now);
      task.worker = worker;
      this.ends.changed(queue, task);
      return { ...leasedOf(queue, task), patternId };
    });
  }

  #serveWaiters(): void {
    this.#servedAt = this.#timing.now();
    for (const waiter of [...this.#waiters]) {
      const tasks = this.#leaseNow(waiter.request);
      if (tasks.length === 0) continue;
      waiter.cancelTimer?.();
      this.#waiters = this.#waiters.filter((other) => other !== waiter);
      waiter.resolve(this.#leased(waiter.request, tasks));
    }
    this.#wakeInTime();
  }

  /** Serves the waiting requests again when the next hidden task becomes available. */
  #wakeInTime(): void {
    this.#cancelWake();
    const now = this.#timing.now();
    const waitedFor = new Set(this.#waiters.flatMap(({ request }) => [...this.#sourcesOf(request).keys()]));
    const hidden = [...waitedFor]
      .flatMap((queue) => this.#sorted(queue).map(({ hiddenUntil }) => hiddenUntil))
      // Not `now`: what has become due since the waiting requests were served last would be missed.
      .filter((until) => until > this.#servedAt);
    const delayMs = Math.max(0, Math.min(...hidden) - now);
    this.#cancelWake = hidden.length === 0 ? () => {} : this.#timing.after(delayMs, this.#wake);
  }

  /** When the waiting requests were served last. */
  #servedAt = Number.NEGATIVE_INFINITY;
  readonly #wake = (): void => this.#serveWaiters();

  #stateOf(task: FakeTask): TaskState {
    if (task.hiddenUntil <= this.#timing.now()) return TaskState.TASK_STATE_AVAILABLE;
    return task.worker === undefined ? TaskState.TASK_STATE_DELAYED : TaskState.TASK_STATE_LEASED;
  }

  #info(queue: string, pid: Uint8Array, includeData: boolean): TaskInfo {
    const task = this.#find(queue, pid);
    const state = task === undefined ? TaskState.TASK_STATE_NOT_FOUND : this.#stateOf(task);
    return infoOf(task, { queue, pid, state }, includeData);
  }

  #stats(queue: string): QueueStats {
    const states = this.#sorted(queue).map((task) => this.#stateOf(task));
    return statsOf(queue, states, this.#completed.get(queue) ?? 0);
  }

  #sorted(queue: string): FakeTask[] {
    return [...(this.#queues.get(queue)?.values() ?? [])].sort((a, b) => Buffer.compare(a.pid, b.pid));
  }

  #find(queue: string, pid: Uint8Array): FakeTask | undefined {
    return this.#queues.get(queue)?.get(keyOf(pid));
  }

  /** A dead letter is not found by its key. */
  #ofKey(queue: string, key: string): FakeTask | undefined {
    return [...(this.#queues.get(queue)?.values() ?? [])].find((task) => task.key === key && task.origin === undefined);
  }

  #queueOf(name: string): Map<string, FakeTask> {
    const queue = this.#queues.get(name) ?? new Map<string, FakeTask>();
    this.#queues.set(name, queue);
    return queue;
  }
}
