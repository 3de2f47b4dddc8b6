import {
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type Method,
  type MethodHandlers,
  type MethodKey,
  parseQueueName,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type WaitForTasksRequest,
  type WaitForTasksResponse,
} from '@taskmaster/proto';
import type { Timing } from '../transport/timing.ts';
import type { Reachable, Transport, TransportCallOptions } from '../transport/transport.ts';
import { CancelledError, cancelled, makeError, withMaybeApplied } from '../values/errors.ts';
import { FakeEngine } from './fake-engine/fake-engine.ts';
import { FakeSchedules } from './fake-engine/fake-schedules.ts';
import { FakeSettings } from './fake-engine/fake-settings.ts';
import type { Fault } from './faults.ts';

type Calls = MethodHandlers<MethodKey, [options?: TransportCallOptions]>;

/** A transport to a fake engine in this thread, with faults that a test injects. */
export class FakeTransport implements Transport {
  readonly engine: FakeEngine;
  readonly settings = new FakeSettings();
  readonly schedules: FakeSchedules;
  readonly reachableFrom: Reachable | undefined = undefined;
  readonly isInProcess = true;
  /** Faults of the next calls of each name, in order. Undefined: no fault. */
  readonly faults: {
    updateTasks: (Fault | undefined)[];
    leaseTasks: (Fault | undefined)[];
    waitForTasks: (Fault | undefined)[];
    getTasks: (Fault | undefined)[];
    putQueueSettings: (Fault | undefined)[];
    backupPartition: (Fault | undefined)[];
    subscribe: (Fault | undefined)[];
  } = {
    updateTasks: [],
    leaseTasks: [],
    waitForTasks: [],
    getTasks: [],
    putQueueSettings: [],
    backupPartition: [],
    subscribe: [],
  };
  /** Options of every update attempt. */
  readonly updateOptions: TransportCallOptions[] = [];
  /** Failed attempts that have not arrived yet. Calling one delivers it. */
  readonly stragglers: (() => unknown)[] = [];
  /** Parts of the next backups, instead of those of the engine. */
  backup: ((request: BackupPartitionRequest) => AsyncIterable<BackupPartitionResponse>) | undefined;
  /** Which calls get no answer: all, or only updates. */
  silent: boolean | 'updates' = false;
  readonly #timing: Timing;
  readonly #closing = new AbortController();

  constructor(timing: Timing) {
    this.#timing = timing;
    this.engine = new FakeEngine(timing);
    this.schedules = new FakeSchedules(timing);
  }

  unary<Q extends object, R>({ key }: Method<Q, R>, request: Q, options?: TransportCallOptions): Promise<R> {
    const calls = this as unknown as Record<string, (request: Q, options?: TransportCallOptions) => Promise<R>>;
    return calls[key]?.(request, options) ?? Promise.reject(new TypeError(`the fake engine has no ${key}`));
  }

  updateTasks(request: UpdateTasksRequest, options: TransportCallOptions = {}): Promise<UpdateTasksResponse> {
    this.updateOptions.push(options);
    return this.#attempt('updateTasks', options, () => this.engine.update(request));
  }

  leaseTasks(request: LeaseTasksRequest, options: TransportCallOptions = {}): Promise<LeaseTasksResponse> {
    const signals = [this.#closing.signal, ...(options.signal ? [options.signal] : [])];
    const act = () => this.engine.lease(request, AbortSignal.any(signals));
    return this.#attempt('leaseTasks', options, act, request.waitMs);
  }

  waitForTasks(request: WaitForTasksRequest, options: TransportCallOptions = {}): Promise<WaitForTasksResponse> {
    const signals = [this.#closing.signal, ...(options.signal ? [options.signal] : [])];
    const act = () => this.engine.ends.wait(request, AbortSignal.any(signals));
    return this.#attempt('waitForTasks', options, act, request.waitMs);
  }

  listQueues(
    { filter, pageToken, limit }: Parameters<Calls['listQueues']>[0],
    options?: TransportCallOptions,
  ): ReturnType<Calls['listQueues']> {
    return this.#attempt('listQueues', options, () => {
      const all = this.engine.stats({ queues: [], filter: undefined }).queues;
      const regex = new RegExp(filter?.nameRegex ?? '', 'u');
      const queues = all.filter(
        ({ queue, available, leased, delayed }) =>
          available + leased + delayed > 0 &&
          regex.test(queue) &&
          (filter?.group === undefined || parseQueueName(queue).group === filter.group),
      );
      const from = Number(pageToken);
      const to = from + (limit === 0 ? queues.length : limit);
      return { queues: queues.slice(from, to), nextPageToken: to < queues.length ? String(to) : '', unreachable: [] };
    });
  }

  getQueueStats: Calls['getQueueStats'] = (request, options) =>
    this.#attempt('getQueueStats', options, () => this.engine.stats(request));
  peekTasks: Calls['peekTasks'] = (request, options) =>
    this.#attempt('peekTasks', options, () => this.engine.peek(request));
  getTasks: Calls['getTasks'] = (request, options) =>
    this.#attempt('getTasks', options, () => this.engine.get(request));
  deleteQueue: Calls['deleteQueue'] = ({ queue }, options) =>
    this.#attempt('deleteQueue', options, () => ({ deletedTasks: this.engine.deleteQueue(queue) }));
  resetLeases: Calls['resetLeases'] = ({ queue }, options) =>
    this.#attempt('resetLeases', options, () => ({ resetTasks: this.engine.resetLeases(queue) }));
  putSchedule: Calls['putSchedule'] = (request, options) =>
    this.#attempt('putSchedule', options, () => this.schedules.put(request));
  listSchedules: Calls['listSchedules'] = (request, options) =>
    this.#attempt('listSchedules', options, () => this.schedules.list(request));
  deleteSchedule: Calls['deleteSchedule'] = ({ schedule }, options) =>
    this.#attempt('deleteSchedule', options, () => ({ deleted: this.schedules.delete(schedule) }));
  pauseSchedule: Calls['pauseSchedule'] = ({ schedule, paused }, options) =>
    this.#attempt('pauseSchedule', options, () => ({ schedule: this.schedules.pause(schedule, paused) }));
  triggerSchedule: Calls['triggerSchedule'] = ({ schedule }, options) =>
    this.#attempt('triggerSchedule', options, () => this.schedules.trigger(schedule));
  subscribe: Calls['subscribe'] = (request, options) =>
    this.#attempt('subscribe', options, () => this.engine.topics.subscribe(request));
  unsubscribe: Calls['unsubscribe'] = (request, options) =>
    this.#attempt('unsubscribe', options, () => this.engine.unsubscribe(request));
  listSubscriptions: Calls['listSubscriptions'] = (request, options) =>
    this.#attempt('listSubscriptions', options, () => this.engine.topics.list(request));

  putQueueSettings: Calls['putQueueSettings'] = (request, options) =>
    this.#attempt('putQueueSettings', options, () => this.settings.put(request));
  deleteQueueSettings: Calls['deleteQueueSettings'] = ({ queues }, options) =>
    this.#attempt('deleteQueueSettings', options, () => ({ deleted: this.settings.delete(queues) }));
  listQueueSettings: Calls['listQueueSettings'] = ({ queue }, options) =>
    this.#attempt('listQueueSettings', options, () => this.settings.list(queue));

  async *stream<Q extends object, R>(
    _method: Method<Q, R>,
    request: Q,
    options?: TransportCallOptions,
  ): AsyncGenerator<R, undefined> {
    const asked = request as unknown as BackupPartitionRequest;
    const parts = await this.#attempt(
      'backupPartition',
      options,
      () => this.backup?.(asked) ?? this.engine.backup(asked),
    );
    yield* parts as AsyncIterable<R> | Iterable<R>;
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #attempt<Reply>(
    name: MethodKey,
    options: TransportCallOptions = {},
    act: () => Reply | Promise<Reply>,
    waitMs = 0,
  ): Promise<Reply> {
    if (this.closed) throw closedError(false);
    if (options.signal?.aborted) throw cancelled(options.signal);
    const isUpdate = name === 'updateTasks';
    if (this.silent === true || (this.silent === 'updates' && isUpdate)) {
      // A cancelled lease waits until no more tasks can be leased to it.
      return this.#unanswered(name === 'leaseTasks' ? { timeoutMs: options.timeoutMs } : options, waitMs);
    }
    const fault = (this.faults as Partial<Record<MethodKey, (Fault | undefined)[]>>)[name]?.shift();
    if (fault?.when === 'late') this.stragglers.push(act);
    if (fault !== undefined && fault.when !== 'after') throw fault.error;
    const reply = await act();
    if (fault !== undefined) throw fault.error;
    return reply;
  }

  /** Rejects at the timeout, after an abort, or when the transport is closed. */
  #unanswered({ signal, timeoutMs }: TransportCallOptions, waitMs: number): Promise<never> {
    return new Promise((_resolve, reject) => {
      const reason = 'DEADLINE_EXCEEDED';
      if (timeoutMs !== undefined) {
        this.#timing.after(timeoutMs + waitMs, () => reject(makeError('no answer', { reason, maybeApplied: true })));
      }
      signal?.addEventListener('abort', () => reject(withMaybeApplied(cancelled(signal), true)));
      this.#closing.signal.addEventListener('abort', () => reject(closedError(true)));
    });
  }
}

const closedError = (maybeApplied: boolean): CancelledError =>
  new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied });
