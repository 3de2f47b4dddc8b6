import { status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { LEASE } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import type { LeaseSource } from '../tasks/lease-source.ts';
import { GIVE_BACK_MS, giveBack, type LeaseStarts, leaseUntilSettled, untilAborted } from '../tasks/lease-tasks.ts';
import { type LeasedTask, WATCH } from '../tasks/leased-task.ts';
import { type CancelTimer, sleep, waitFor } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { durationMs } from '../values/duration.ts';
import { CancelledError, type TaskMasterError } from '../values/errors.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { assertKnown } from '../values/known-options.ts';
import { DEFAULT_STOP_TIMEOUT, type StopOptions, stopNames } from '../values/options.ts';
import { backoffBound } from '../values/retry.ts';
import { warn } from '../values/warnings.ts';
import { type Batch, Gathering } from './gathering.ts';
import { callHandler, failed, type Outcome, type RunTaskParts, reportLost, settleTask } from './run-task.ts';
import {
  type AnyHandler,
  type AnyWorkerOptions,
  type Handler,
  type RunOptions,
  runNames,
  type WorkerSettings,
  workerSettings,
} from './worker-options.ts';

type WorkerState =
  | { readonly kind: 'idle' }
  /** Leases and handles tasks. */
  | { readonly kind: 'running'; readonly leasing: AbortController; readonly feeding: Promise<void> }
  /** Leases no more and waits for running handlers. */
  | { readonly kind: 'stopping'; readonly stopped: Promise<void> }
  | { readonly kind: 'stopped' };

const LEASE_RETRY_INITIAL_MS = 100;
const LEASE_RETRY_MAX_MS = 10_000;
/** How long handlers may run after their signals are aborted, in ms. */
const ABORTED_MS = 1_000;
/**
 * Largest amount of prefetched work, in ms. It hides the latency of a request and does not take many tasks from other workers.
 */
const AHEAD_MS = 100;
/**
 * How long a handler runs before the node hears that it has begun, in ms. Most handlers end before, and nothing is sent for them.
 * Of two deaths of a worker within this time, the node learns from the second one which task is to blame.
 */
const TELL_AFTER_MS = 1_000;

/**
 * Leases tasks, runs a handler for each or for several at once, and completes them, or releases them after a failure. It renews
 * their leases meanwhile. `client.worker()` makes one. A worker can be started once.
 */
export class Worker<T> implements AsyncDisposable {
  readonly #context: ClientContext;
  readonly #source: LeaseSource<T>;
  readonly #settings: WorkerSettings<T>;
  readonly #parts: RunTaskParts<T>;
  readonly #finished = Promise.withResolvers<void>();
  /** Leased tasks whose handlers have not begun. */
  readonly #gathering: Gathering<LeasedTask<T>>;
  /** Tasks of the calls of the handler that run, and when they began. */
  readonly #running = new Map<readonly LeasedTask<T>[], number>();
  /** Tasks whose handlers have ended and whose completion or release is on its way. */
  readonly #settling = new Set<LeasedTask<T>>();
  /** Aborted when the time of a stop is over. */
  readonly #giveUp = new AbortController();
  #state: WorkerState = { kind: 'idle' };
  /** Mean time of a call of the handler. */
  #meanCallMs: number | undefined;
  /** For the next batch that may start without more tasks. */
  #cancelTimer: CancelTimer | undefined;
  /** For handlers whose begin the node does not know. */
  #cancelTell: CancelTimer | undefined;
  #hasWarned = false;
  #isBeginning = false;
  #wake: (() => void) | undefined;

  /** Internal: use `client.worker()`. */
  constructor(shared: ClientContext, source: LeaseSource<T>, handler: AnyHandler<T>, options: AnyWorkerOptions<T>) {
    const { telemetry } = options;
    const context = telemetry === undefined ? shared : { ...shared, telemetry: shared.telemetry.of(telemetry) };
    this.#context = context;
    this.#source = source;
    this.#settings = workerSettings(options);
    const { max, maxWaitMs } = this.#settings.batch ?? { max: 1, maxWaitMs: 0 };
    this.#gathering = new Gathering(max, maxWaitMs);
    this.#parts = {
      context,
      handler: inContext(recorded(context, handler)),
      settings: this.#settings,
      giveUp: this.#giveUp.signal,
      onTooLong: (task) => this.#tooLong(task),
      onHandled: (tasks, outcomes) => this.#handled(tasks, outcomes),
    };
    // After start() the error goes to onAttemptFailed only.
    this.#finished.promise.catch(() => {});
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.#runningTasks().length;
  }

  /** Starts to lease and handle tasks. @throws TypeError if the worker was started before. */
  start(): void {
    if (this.#state.kind !== 'idle') throw new TypeError('the worker was started before');
    const leasing = new AbortController();
    this.#context.workers.add(this);
    const feeding = this.#context.telemetry.apart(() => this.#feed(leasing.signal));
    this.#state = { kind: 'running', leasing, feeding };
  }

  /**
   * Runs until the signal is aborted or `stop()` is called. Resolves when all handlers have ended.
   * @throws InvalidRequestError if the node refuses the lease requests, for example because of the name of a queue;
   * CancelledError if the client was closed before.
   */
  async run(options: RunOptions = {}): Promise<void> {
    assertKnown('run', options, runNames);
    const { signal, stopTimeout } = options;
    const onAbort = (): void => void this.stop({ timeout: stopTimeout });
    this.start();
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    try {
      await this.#finished.promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Leases no more tasks, releases prefetched tasks, and waits for running handlers. After `timeout` (default 30 s) it aborts the
   * signals of running tasks. If a handler then returns, its task is completed. If it throws, or still runs a second later, its
   * task is released as interrupted, and the attempt does not count.
   *
   * Resolves at most 3 s after the timeout. If `stop` is called again, the shorter timeout counts. It does nothing if the worker
   * does not run.
   */
  async stop(options: StopOptions = {}): Promise<void> {
    assertKnown('stop', options, stopNames);
    const timeoutMs = durationMs(options.timeout ?? DEFAULT_STOP_TIMEOUT, 'timeout');
    const cancelTimer = this.#context.timing.after(timeoutMs, () => this.#giveUp.abort(stopped()), true);
    try {
      await this.#stopped();
    } finally {
      cancelTimer();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** Starts the stop if it has not begun. Resolves when all handlers have ended. */
  #stopped(): Promise<void> {
    const state = this.#state;
    switch (state.kind) {
      case 'idle':
        this.#state = { kind: 'stopped' };
        this.#finished.resolve();
        return Promise.resolve();
      case 'running': {
        state.leasing.abort();
        this.#cancelTimer?.();
        const stopped = this.#drain(state.feeding);
        this.#state = { kind: 'stopping', stopped };
        this.#wake?.();
        return stopped;
      }
      case 'stopping':
        return state.stopped;
      case 'stopped':
        return Promise.resolve();
      default:
        return state satisfies never;
    }
  }

  async #drain(feeding: Promise<void>): Promise<void> {
    const { timing, workers } = this.#context;
    const ended = feeding.then(() => Promise.all([this.#giveBackUnbegun(), this.#untilIdle()]));
    await Promise.race([ended, aborted(this.#giveUp.signal)]);
    if (this.#isBusy) {
      for (const task of [...this.#runningTasks(), ...this.#settling]) task[LEASE].letGo(stopped());
      await waitFor(timing, ended, ABORTED_MS);
      await waitFor(timing, this.#giveBackRunning(), GIVE_BACK_MS);
    }
    this.#cancelTell?.();
    this.#state = { kind: 'stopped' };
    workers.delete(this);
    this.#finished.resolve();
  }

  #runningTasks(): LeasedTask<T>[] {
    return [...this.#running.keys()].flat();
  }

  get #isBusy(): boolean {
    return this.#running.size + this.#settling.size > 0;
  }

  async #untilIdle(): Promise<void> {
    while (this.#isBusy) await this.#taskDone();
  }

  #giveBackUnbegun(): Promise<void> {
    return giveBack(this.#context, this.#gathering.takeAll());
  }

  /** Releases tasks whose handlers do not end. The leases are lost first, so that these handlers cannot settle their tasks. */
  #giveBackRunning(): Promise<void> {
    const held = [...this.#runningTasks(), ...this.#settling].filter((task) => task[LEASE].isHeld);
    for (const task of held) task[LEASE].lose(stopped());
    return giveBack(
      this.#context,
      held.map(({ queue, pid, leaseToken }) => ({ queue, pid, leaseToken })),
      true,
    );
  }

  #taskDone(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Never rejects. */
  async #feed(signal: AbortSignal): Promise<void> {
    const settings = this.#settings;
    let failures = 0;
    while (!signal.aborted) {
      const free = this.#room();
      if (free < 1) {
        await this.#taskDone();
        continue;
      }
      try {
        const from = await untilAborted(Promise.resolve(this.#source(limits.leaseQueues)), signal);
        const tasks = await leaseUntilSettled(this.#context, from, {
          max: Math.min(free, limits.leaseTasks),
          leaseDuration: settings.leaseDurationMs,
          wait: settings.waitMs,
          maxPid: settings.maxPid,
          kinds: settings.kinds,
          workerLabel: settings.workerLabel,
          starts: this.#starts(),
          signal,
        });
        failures = 0;
        this.#accept(tasks);
      } catch (thrown) {
        if (signal.aborted) return;
        const error = asTaskMasterError(thrown);
        callHook(settings.hooks, 'onAttemptFailed', error, undefined);
        // The request is wrong, or the client is closed, so a repetition would fail too.
        if (error.code === status.INVALID_ARGUMENT || error.code === status.CANCELLED) {
          this.#finished.reject(error);
          void this.stop();
          return;
        }
        const bound = backoffBound(++failures, LEASE_RETRY_INITIAL_MS, LEASE_RETRY_MAX_MS);
        await sleep(this.#context.timing, bound * this.#context.random(), signal).catch(() => {});
      }
    }
  }

  /** How the next tasks begin. Batches gather first. */
  #starts(): LeaseStarts {
    const { batch } = this.#settings;
    return batch === undefined
      ? { now: Math.min(Math.max(0, this.#places()), limits.leaseTasks) }
      : { now: 0, together: batch.max };
  }

  /** Number of tasks to lease now. */
  #room(): number {
    const { concurrency, prefetch } = this.#settings;
    const max = this.#max;
    // Whole batches, so that prefetching does not make batches smaller.
    const ahead = prefetchFor(this.#meanCallMs, concurrency, Math.floor(prefetch / max)) * max;
    const places = this.#places() * max;
    const waiting = this.#gathering.size;
    // Prefetch when half of it is used up, because a request for many tasks costs hardly more than for one.
    if (waiting - Math.max(0, places) > ahead / 2) return 0;
    return places + ahead - waiting;
  }

  /** Number of handlers that may begin now. Completions on their way beyond the window keep their places. */
  #places(): number {
    const { concurrency, prefetch } = this.#settings;
    const beyond = Math.max(0, this.#settling.size - prefetch);
    return concurrency - this.#running.size - Math.ceil(beyond / this.#max);
  }

  get #max(): number {
    return this.#settings.batch?.max ?? 1;
  }

  #accept(tasks: readonly LeasedTask<T>[]): void {
    // Renew the leases of waiting tasks too.
    this.#context.keeper.keep(
      tasks.map((task) => task[LEASE]),
      this.#settings.maxLeaseMs,
    );
    const now = this.#context.timing.now();
    const added: (readonly [task: LeasedTask<T>, batch: Batch<LeasedTask<T>>])[] = [];
    for (const task of tasks) {
      const key = this.#keyOf(task);
      if (key !== undefined) added.push([task, this.#gathering.add(task, key, now, task.unbegun || undefined)]);
    }
    this.#beginTasks();
    if (this.#settings.batch === undefined) return;
    for (const [task, batch] of added) if (!batch.isTaken) this.#watchWaiting(task, batch);
  }

  /** The key of the batch of the task. Undefined: the attempt has failed. */
  #keyOf(task: LeasedTask<T>): string | undefined {
    const { batch } = this.#settings;
    // After a stop the task is released, whatever its key.
    if (batch === undefined || this.#state.kind !== 'running') return '';
    try {
      // Read first, so that a payload that cannot be read fails the attempt before the handler starts.
      void task.data;
      const key: unknown = batch.by?.(task) ?? (batch.by === undefined ? '' : undefined);
      if (typeof key === 'string') return key;
      throw new TypeError('batch.by: must return a string');
    } catch (thrown) {
      reportLost(this.#parts, task);
      this.#settling.add(task);
      void this.#settle(task, failed(thrown));
      return undefined;
    }
  }

  /** A task that waits for others leaves its batch when it should not begin any more. */
  #watchWaiting(task: LeasedTask<T>, batch: Batch<LeasedTask<T>>): void {
    const { signal } = task;
    const watch = task[WATCH]();
    const unwatch = (): void => {
      signal.removeEventListener('abort', leave);
      watch[Symbol.dispose]();
    };
    const leave = (): void => {
      unwatch();
      this.#gathering.remove(task, batch);
      this.#leave(task, signal.reason);
    };
    batch.onTaken.push(unwatch);
    signal.addEventListener('abort', leave);
    if (signal.aborted) leave();
  }

  #leave(task: LeasedTask<T>, reason: TaskMasterError): void {
    const lease = task[LEASE];
    if (lease.cancelled === undefined && lease.overTime === undefined) {
      lease.letGo();
      callHook(this.#settings.hooks, 'onLeaseLost', task, reason);
    } else {
      this.#settling.add(task);
      void this.#settle(task, failed(reason));
    }
    this.#goOn();
  }

  #beginTasks(): void {
    // A handler that throws at once comes back here. Then the loop below goes on, instead of a deeper call for each task.
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    while (this.#state.kind === 'running' && this.#places() > 0) {
      const batch = this.#gathering.take(this.#context.timing.now(), this.#room() < 1);
      if (batch === undefined) break;
      const held = batch.tasks.filter((task) => {
        const { over } = task[LEASE];
        if (over !== undefined) this.#leave(task, over);
        return over === undefined;
      });
      if (held.length > 0) this.#run(held, batch.key);
    }
    this.#isBeginning = false;
    this.#beginLater();
  }

  /** Begins the next batch when it has waited for its time. */
  #beginLater(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { dueAt } = this.#gathering;
    if (dueAt === undefined || this.#state.kind !== 'running' || this.#places() < 1) return;
    const { timing } = this.#context;
    this.#cancelTimer = timing.after(Math.max(0, dueAt - timing.now()), () => this.#beginTasks());
  }

  #tooLong({ queue }: LeasedTask<T>): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    warn(
      'TASKMASTER_HANDLER_TOO_LONG',
      `a handler of ${queue} runs for longer than the worker's maxLeaseTime of ${this.#settings.maxLeaseMs} ms, so its lease has ` +
        'ended, and another worker gets its task while it runs; choose a longer maxLeaseTime, or stop when task.signal is aborted',
    );
  }

  #run(tasks: readonly LeasedTask<T>[], key: string): void {
    this.#running.set(tasks, this.#context.timing.now());
    if (tasks.some(({ unbegun = 0 }) => unbegun > 0)) {
      void this.#runTold(tasks, key);
      return;
    }
    if (tasks.some(isUntold)) this.#tellLater();
    void callHandler(this.#parts, tasks, key);
  }

  /** Begins tasks that may have killed a worker, when the node knows that they begin. Never rejects. */
  async #runTold(tasks: readonly LeasedTask<T>[], key: string): Promise<void> {
    const told = await this.#tell(tasks);
    const begun = tasks.filter((task, at) => told[at]?.status === 'fulfilled' && task[LEASE].isHeld);
    const mayBegin = this.#state.kind === 'running';
    // After a stop no handler begins.
    if (!mayBegin) await giveBack(this.#context, begun);
    this.#running.delete(tasks);
    for (const [at, task] of tasks.entries()) if (!begun.includes(task)) this.#leaveUntold(task, told[at]);
    if (begun.length === 0 || !mayBegin) {
      this.#goOn();
      return;
    }
    this.#running.set(begun, this.#context.timing.now());
    void callHandler(this.#parts, begun, key);
  }

  /** The task does not begin. It is available when its lease ends. */
  #leaveUntold(task: LeasedTask<T>, told: PromiseSettledResult<void> | undefined): void {
    const lease = task[LEASE];
    const { hooks } = this.#settings;
    if (lease.lostTo !== undefined) callHook(hooks, 'onLeaseLost', task, lease.lostTo);
    else if (told?.status === 'rejected') callHook(hooks, 'onAttemptFailed', told.reason, task);
    lease.letGo();
  }

  /** Tells the node that these tasks begin together. One update for each, so that a lost lease does not refuse the others. */
  #tell(tasks: readonly LeasedTask<T>[]): Promise<readonly PromiseSettledResult<void>[]> {
    return Promise.allSettled(tasks.map((task) => (isUntold(task) ? task.begin(tasks.length) : undefined)));
  }

  /** Tells the node of handlers that run for long and that it does not know of. */
  #tellLater(): void {
    const { timing } = this.#context;
    this.#cancelTell ??= timing.after(TELL_AFTER_MS, () => {
      this.#cancelTell = undefined;
      const before = timing.now() - TELL_AFTER_MS;
      for (const [tasks, begunAt] of this.#running) {
        if (!tasks.some((task) => isUntold(task) && task[LEASE].isHeld)) continue;
        if (begunAt <= before) void this.#tell(tasks);
        // Again, because what is told may fail.
        this.#tellLater();
      }
    });
  }

  #handled(tasks: readonly LeasedTask<T>[], outcomes: readonly Outcome[]): void {
    const begun = this.#running.get(tasks) ?? 0;
    this.#meanCallMs = movingMean(this.#meanCallMs, this.#context.timing.now() - begun);
    this.#running.delete(tasks);
    for (const task of tasks) this.#settling.add(task);
    this.#goOn();
    // All in one turn, so that those of one group are joined into few requests.
    for (const [at, task] of tasks.entries()) void this.#settle(task, outcomes[at] as Outcome);
  }

  async #settle(task: LeasedTask<T>, outcome: Outcome): Promise<void> {
    const within = this.#context.telemetry.within(task);
    await (within === undefined
      ? settleTask(this.#parts, task, outcome)
      : within(() => settleTask(this.#parts, task, outcome)));
    this.#settling.delete(task);
    this.#goOn();
  }

  #goOn(): void {
    this.#beginTasks();
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** Batches come as lists, and a list is no task: so one type of function stands for both kinds of handlers. */
function recorded<T>({ telemetry }: ClientContext, handler: AnyHandler<T>): AnyHandler<T> {
  return telemetry.handler(handler as Handler<T>) as AnyHandler<T>;
}

const isUntold = ({ unbegun }: LeasedTask<unknown>): boolean => unbegun !== undefined;

function stopped(): CancelledError {
  return new CancelledError('the worker was stopped', { reason: 'CANCELLED' });
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/**
 * Number of calls of the handler whose tasks to prefetch. It is small, because prefetched tasks wait here while another worker
 * may be idle.
 * @param meanMs mean time of a call, in ms. Undefined before the first call has ended; then nothing is prefetched.
 */
export function prefetchFor(meanMs: number | undefined, concurrency: number, bound: number): number {
  if (meanMs === undefined) return 0;
  return Math.min(bound, Math.floor((concurrency * AHEAD_MS) / Math.max(meanMs, 1)));
}

/** Moving mean: a new value counts an eighth. */
export function movingMean(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + (value - mean) / 8;
}
