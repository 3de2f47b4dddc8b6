import { status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { LEASE } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import type { LeaseSource } from '../tasks/lease-source.ts';
import { GIVE_BACK_MS, giveBack, type LeaseStarts, leaseUntilSettled, untilAborted } from '../tasks/lease-tasks.ts';
import { type LeasedTask, WATCH } from '../tasks/leased-task.ts';
import { type CancelTimer, sleep, waitFor } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { CancelledError, type TaskMasterError } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import { type StopOptions, stopTimeoutMs } from '../values/options.ts';
import { backoffBound } from '../values/retry.ts';
import { warn } from '../values/warnings.ts';
import { type Batch, Gathering } from './gathering.ts';
import {
  callHandler,
  callTaskHook,
  failed,
  type Outcome,
  type RunTaskParts,
  reportLost,
  settleTask,
  type WorkParts,
} from './run-task.ts';
import type { WorkerSettings } from './worker-options.ts';

type RunState =
  /** Leases and handles tasks, unless it is paused. */
  | { readonly kind: 'running' }
  /** Leases no more and waits for running handlers. */
  | { readonly kind: 'stopping'; readonly stopped: Promise<void> }
  | { readonly kind: 'stopped' };

/** Nobody reads it. The default is an error with a stack, made for each request. */
const NO_LONGER_ASKED = 'no longer asked for';

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

/** What a run needs of its worker, which has one run after the other. */
export interface WorkerRunParts<T> extends WorkParts<T> {
  readonly source: LeaseSource<T>;
  /** Ends handlers that have not ended in the time of a stop. Never rejects. */
  readonly endHandlers: () => Promise<void>;
}

/** A wait for the end of the work, or for a pause. */
interface Waiter {
  readonly until: 'idle' | 'paused';
  readonly resolve: () => void;
}

/**
 * A run of a worker, from a start to the end of the next stop.
 *  W1  While it is paused it leases no tasks and begins none.
 *  W2  It is idle when it has no tasks, and a lease request that was sent after its last task has ended has got none.
 */
export class WorkerRun<T> {
  /** Resolves when it has stopped. Rejects if the lease requests are wrong, or the client is closed. */
  readonly finished: Promise<void>;
  readonly #context: ClientContext;
  readonly #source: LeaseSource<T>;
  readonly #settings: WorkerSettings<T>;
  readonly #parts: RunTaskParts<T>;
  readonly #endHandlers: () => Promise<void>;
  readonly #finished = Promise.withResolvers<void>();
  /** Leased tasks whose handlers have not begun. */
  readonly #gathering: Gathering<LeasedTask<T>>;
  /** Tasks of the calls of the handler that run, and when they began. */
  readonly #running = new Map<readonly LeasedTask<T>[], number>();
  /** Tasks whose handlers have ended and whose completion or release is on its way. */
  readonly #settling = new Set<LeasedTask<T>>();
  /** Aborted when the time of a stop is over. */
  readonly #giveUp = new AbortController();
  readonly #feeding: Promise<void>;
  #state: RunState = { kind: 'running' };
  #isPaused: boolean;
  /** Whether it leases nothing because of the pause. */
  #isParked = false;
  /** Ends the lease request that waits. */
  #leasing = new AbortController();
  /** Whether the queues had no more tasks at the last look, for W2. Set only if a hook or a caller waits for it. */
  #isDrained = false;
  /** Whether the request that waits must be asked anew when the last task has ended. */
  #mayBeStale = false;
  /** Whether the hooks have heard that it is drained, and idle, since its last task. */
  #toldDrained = false;
  #toldIdle = false;
  readonly #waiters = new Set<Waiter>();
  /** Mean time of a call of the handler. */
  #meanCallMs: number | undefined;
  /** For the next batch that may start without more tasks. */
  #cancelTimer: CancelTimer | undefined;
  /** For handlers whose begin the node does not know. */
  #cancelTell: CancelTimer | undefined;
  #begun = 0;
  #hasWarned = false;
  #isBeginning = false;
  #wake: (() => void) | undefined;

  /** Starts it. */
  constructor({ source, endHandlers, ...parts }: WorkerRunParts<T>, isPaused: boolean) {
    const { context, settings } = parts;
    this.#context = context;
    this.#source = source;
    this.#settings = settings;
    this.#endHandlers = endHandlers;
    this.#isPaused = isPaused;
    const { max, maxWaitMs } = settings.batch ?? { max: 1, maxWaitMs: 0 };
    this.#gathering = new Gathering(max, maxWaitMs);
    this.#parts = {
      ...parts,
      giveUp: this.#giveUp.signal,
      onTooLong: (task) => this.#tooLong(task),
      onHandled: (tasks, outcomes) => this.#handled(tasks, outcomes),
    };
    this.finished = this.#finished.promise;
    // After start() the error goes to onAttemptFailed only.
    this.finished.catch(() => {});
    context.workers.add(this);
    this.#feeding = context.telemetry.apart(() => this.#feed());
  }

  /** Number of tasks that have begun. */
  get begun(): number {
    return this.#begun;
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.#runningTasks().length;
  }

  get isStopped(): boolean {
    return this.#state.kind === 'stopped';
  }

  /** For `client.close`, too. See `Worker.stop`. */
  async stop(options: StopOptions = {}): Promise<void> {
    const timeoutMs = stopTimeoutMs(options);
    const cancelTimer = this.#context.timing.after(timeoutMs, () => this.#giveUp.abort(stopped()), true);
    try {
      await this.#stopped();
    } finally {
      cancelTimer();
    }
  }

  /** Resolves when no handler runs and nothing is leased. */
  pause(): Promise<void> {
    this.#isPaused = true;
    this.#isDrained = false;
    this.#askAnew();
    return this.#until('paused');
  }

  resume(): void {
    this.#isPaused = false;
    this.#goOn();
  }

  /** The settings have another concurrency. `fewer`: tasks that were leased in advance may wait for long now. */
  concurrencyChanged(fewer: boolean): void {
    if (this.#state.kind !== 'running') return;
    if (fewer) {
      this.#askAnew();
      void this.#giveBackUnbegun();
    }
    this.#goOn();
  }

  /** Resolves when it is idle (W2), or has stopped. */
  untilIdle(): Promise<void> {
    // What was enqueued until now counts, and the request that waits may be older.
    this.#isDrained = false;
    this.#askAnew();
    return Promise.race([this.#until('idle'), this.finished]);
  }

  #until(until: Waiter['until']): Promise<void> {
    if (this.#state.kind !== 'running') return this.finished;
    return new Promise((resolve) => {
      this.#waiters.add({ until, resolve });
      this.#goOn();
    });
  }

  /** Ends the lease request that waits. The next one follows, unless the run is paused or has stopped. */
  #askAnew(): void {
    this.#leasing.abort(NO_LONGER_ASKED);
    if (this.#state.kind === 'running') this.#leasing = new AbortController();
  }

  /** Starts the stop if it has not begun. Resolves when all handlers have ended. */
  #stopped(): Promise<void> {
    const state = this.#state;
    switch (state.kind) {
      case 'running': {
        this.#cancelTimer?.();
        const stopped = this.#drain();
        this.#state = { kind: 'stopping', stopped };
        this.#askAnew();
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

  async #drain(): Promise<void> {
    const { timing, workers } = this.#context;
    const ended = this.#feeding.then(() => {
      this.#context.telemetry.endWait();
      return Promise.all([this.#giveBackUnbegun(), this.#untilIdle()]);
    });
    await Promise.race([ended, aborted(this.#giveUp.signal)]);
    if (this.#isBusy) {
      for (const task of [...this.#runningTasks(), ...this.#settling]) task[LEASE].letGo(stopped());
      await waitFor(timing, ended, ABORTED_MS);
      await waitFor(timing, this.#giveBackRunning(), GIVE_BACK_MS);
    }
    this.#cancelTell?.();
    await this.#endHandlers();
    this.#state = { kind: 'stopped' };
    workers.delete(this);
    this.#finished.resolve();
    for (const { resolve } of this.#waiters) resolve();
    this.#waiters.clear();
  }

  #runningTasks(): LeasedTask<T>[] {
    return [...this.#running.keys()].flat();
  }

  get #mayBegin(): boolean {
    return this.#state.kind === 'running' && !this.#isPaused;
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
  async #feed(): Promise<void> {
    const settings = this.#settings;
    let failures = 0;
    while (this.#state.kind === 'running') {
      const { signal } = this.#leasing;
      if (this.#isPaused) {
        await this.#park();
        continue;
      }
      const free = this.#room();
      if (free < 1) {
        await this.#taskDone();
        continue;
      }
      // To be sure that there is no task: a request that waits is answered when there is one.
      const looks = this.#wantsIdle && !this.#isDrained;
      try {
        const from = await untilAborted(Promise.resolve(this.#source(limits.leaseQueues)), signal);
        const tasks = await leaseUntilSettled(this.#context, from, {
          max: Math.min(free, limits.leaseTasks),
          leaseDuration: settings.leaseDurationMs,
          wait: looks ? 0 : settings.waitMs,
          maxPid: settings.maxPid,
          kinds: settings.kinds,
          workerLabel: settings.workerLabel,
          starts: this.#starts(),
          signal,
        });
        failures = 0;
        if (tasks.length > 0) this.#hasTasks();
        else if (looks && !signal.aborted) this.#drained();
        this.#accept(tasks);
      } catch (thrown) {
        if (signal.aborted) continue;
        const error = asTaskMasterError(thrown);
        callHook(settings.hooks, 'onAttemptFailed', error, undefined, undefined);
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

  /** Resolves when the pause is over, or the run stops. */
  async #park(): Promise<void> {
    this.#context.telemetry.endWait();
    await this.#giveBackUnbegun();
    this.#isParked = true;
    while (this.#isPaused && this.#state.kind === 'running') {
      this.#tellWaiters();
      await this.#taskDone();
    }
    this.#isParked = false;
  }

  /** Whether anybody wants to know when the queues are empty. Only then the worker asks for it. */
  get #wantsIdle(): boolean {
    const { onDrained, onIdle } = this.#settings.hooks;
    if (onDrained !== undefined || onIdle !== undefined) return true;
    for (const { until } of this.#waiters) if (until === 'idle') return true;
    return false;
  }

  #hasTasks(): void {
    this.#isDrained = false;
    this.#mayBeStale = false;
    this.#toldDrained = false;
    this.#toldIdle = false;
  }

  #drained(): void {
    this.#isDrained = true;
    if (!this.#toldDrained) callHook(this.#settings.hooks, 'onDrained');
    this.#toldDrained = true;
    this.#tellWaiters();
  }

  /** Tells of an idle worker, and of one that is paused. */
  #tellWaiters(): void {
    if (this.#isBusy || this.#gathering.size > 0) return;
    const isIdle = this.#isDrained && !this.#isPaused;
    if (isIdle && !this.#toldIdle) callHook(this.#settings.hooks, 'onIdle');
    this.#toldIdle ||= isIdle;
    for (const waiter of this.#waiters) {
      if (waiter.until === 'idle' ? !isIdle : !this.#isParked) continue;
      this.#waiters.delete(waiter);
      waiter.resolve();
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
    // After a stop or a pause the task is released, whatever its key.
    if (batch === undefined || !this.#mayBegin) return '';
    try {
      // Read first, so that a payload that cannot be read fails the attempt before the handler starts.
      void task.data;
      const key: unknown = batch.by?.(task) ?? (batch.by === undefined ? '' : undefined);
      if (typeof key === 'string') return key;
      throw new TypeError('batch.by: must return a string');
    } catch (thrown) {
      reportLost(this.#parts, task);
      this.#settling.add(task);
      void this.#settle(task, failed(thrown), undefined);
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
      callTaskHook(this.#parts, 'onLeaseLost', task, task, reason);
    } else {
      this.#settling.add(task);
      void this.#settle(task, failed(reason), undefined);
    }
    this.#goOn();
  }

  #beginTasks(): void {
    // A handler that throws at once comes back here. Then the loop below goes on, instead of a deeper call for each task.
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    while (this.#mayBegin && this.#places() > 0) {
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
    this.#begun += tasks.length;
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
    const mayBegin = this.#mayBegin;
    // After a stop no handler begins, and none in a pause.
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
    if (lease.lostTo !== undefined) callTaskHook(this.#parts, 'onLeaseLost', task, task, lease.lostTo);
    else if (told?.status === 'rejected')
      callTaskHook(this.#parts, 'onAttemptFailed', task, told.reason, task, undefined);
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
    const now = this.#context.timing.now();
    const durationMs = now - (this.#running.get(tasks) ?? now);
    this.#meanCallMs = movingMean(this.#meanCallMs, durationMs);
    this.#running.delete(tasks);
    for (const task of tasks) this.#settling.add(task);
    this.#goOn();
    // All in one turn, so that those of one group are joined into few requests.
    for (const [at, task] of tasks.entries()) void this.#settle(task, outcomes[at] as Outcome, durationMs);
  }

  async #settle(task: LeasedTask<T>, outcome: Outcome, durationMs: number | undefined): Promise<void> {
    const within = this.#context.telemetry.within(task);
    await (within === undefined
      ? settleTask(this.#parts, task, outcome, durationMs)
      : within(() => settleTask(this.#parts, task, outcome, durationMs)));
    this.#settling.delete(task);
    if (this.#isDrained || this.#mayBeStale) this.#mayBeMore();
    this.#goOn();
  }

  /** What has ended may have enqueued tasks, or is available again: look once more when the work has ended. */
  #mayBeMore(): void {
    this.#isDrained = false;
    this.#mayBeStale = this.#isBusy;
    if (!this.#mayBeStale) this.#askAnew();
  }

  #goOn(): void {
    this.#beginTasks();
    if (this.#waiters.size > 0) this.#tellWaiters();
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
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
