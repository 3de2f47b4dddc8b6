import { status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { LEASE } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import type { LeaseSource } from '../tasks/lease-source.ts';
import { GIVE_BACK_MS, giveBack, leaseUntilSettled, untilAborted } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { sleep, waitFor } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { durationMs } from '../values/duration.ts';
import { CancelledError } from '../values/errors.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { assertKnown } from '../values/known-options.ts';
import { DEFAULT_STOP_TIMEOUT, type StopOptions, stopNames } from '../values/options.ts';
import { backoffBound } from '../values/retry.ts';
import { warn } from '../values/warnings.ts';
import { type RunTaskParts, runTask } from './run-task.ts';
import {
  type Handler,
  type RunOptions,
  runNames,
  type WorkerOptions,
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
 * Leases tasks, runs a handler for each, and completes them, or releases them after a failure. It renews their leases meanwhile.
 * `client.worker()` makes one. A worker can be started once.
 */
export class Worker<T> implements AsyncDisposable {
  readonly #context: ClientContext;
  readonly #source: LeaseSource<T>;
  readonly #settings: WorkerSettings<T>;
  readonly #parts: RunTaskParts<T>;
  readonly #finished = Promise.withResolvers<void>();
  /** Tasks whose handlers run, and when they began. */
  readonly #running = new Map<LeasedTask<T>, number>();
  /** Tasks whose handlers have ended and whose completion or release is on its way. */
  readonly #settling = new Set<LeasedTask<T>>();
  /** Aborted when the time of a stop is over. */
  readonly #giveUp = new AbortController();
  #buffered: LeasedTask<T>[] = [];
  #state: WorkerState = { kind: 'idle' };
  #meanTaskMs: number | undefined;
  #hasWarned = false;
  #isBeginning = false;
  #wake: (() => void) | undefined;

  /** Internal: use `client.worker()`. */
  constructor(context: ClientContext, source: LeaseSource<T>, handler: Handler<T>, options: WorkerOptions<T>) {
    this.#context = context;
    this.#source = source;
    this.#settings = workerSettings(options);
    this.#parts = {
      context,
      handler: inContext(handler),
      settings: this.#settings,
      giveUp: this.#giveUp.signal,
      onTooLong: (task) => this.#tooLong(task),
      onHandled: (task) => this.#handled(task),
    };
    // After start() the error goes to onAttemptFailed only.
    this.#finished.promise.catch(() => {});
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.#running.size;
  }

  /** Starts to lease and handle tasks. @throws TypeError if the worker was started before. */
  start(): void {
    if (this.#state.kind !== 'idle') throw new TypeError('the worker was started before');
    const leasing = new AbortController();
    this.#context.workers.add(this);
    this.#state = { kind: 'running', leasing, feeding: this.#feed(leasing.signal) };
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
   * task is released, and the attempt does not count.
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
      for (const task of [...this.#running.keys(), ...this.#settling]) task[LEASE].letGo(stopped());
      await waitFor(timing, ended, ABORTED_MS);
      await waitFor(timing, this.#giveBackRunning(), GIVE_BACK_MS);
    }
    this.#state = { kind: 'stopped' };
    workers.delete(this);
    this.#finished.resolve();
  }

  get #isBusy(): boolean {
    return this.#running.size + this.#settling.size > 0;
  }

  async #untilIdle(): Promise<void> {
    while (this.#isBusy) await this.#taskDone();
  }

  #giveBackUnbegun(): Promise<void> {
    const unbegun = this.#buffered;
    this.#buffered = [];
    return giveBack(this.#context, unbegun);
  }

  /** Releases tasks whose handlers do not end. The leases are lost first, so that these handlers cannot settle their tasks. */
  #giveBackRunning(): Promise<void> {
    const held = [...this.#running.keys(), ...this.#settling].filter((task) => task[LEASE].isHeld);
    for (const task of held) task[LEASE].lose(stopped());
    return giveBack(
      this.#context,
      held.map(({ queue, pid, leaseToken }) => ({ queue, pid, leaseToken })),
    );
  }

  #taskDone(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Never rejects. */
  async #feed(signal: AbortSignal): Promise<void> {
    const { settings } = this.#parts;
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
          workerLabel: settings.workerLabel,
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

  /** Number of tasks to lease now. */
  #room(): number {
    const { concurrency, prefetch } = this.#settings;
    const ahead = prefetchFor(this.#meanTaskMs, concurrency, prefetch);
    // Prefetch when half of it is used up, because a request for many tasks costs hardly more than for one.
    if (this.#buffered.length > ahead / 2) return 0;
    return this.#places() + ahead - this.#buffered.length;
  }

  /** Number of handlers that may begin now. Completions on their way beyond the window keep their places. */
  #places(): number {
    const { concurrency, prefetch } = this.#settings;
    return concurrency - this.#running.size - Math.max(0, this.#settling.size - prefetch);
  }

  #accept(tasks: readonly LeasedTask<T>[]): void {
    // Renew the leases of waiting tasks too.
    this.#context.keeper.keep(
      tasks.map((task) => task[LEASE]),
      this.#settings.maxLeaseMs,
    );
    this.#buffered.push(...tasks);
    this.#beginTasks();
  }

  #beginTasks(): void {
    // A handler that throws at once comes back here. Then the loop below goes on, instead of a deeper call for each task.
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    while (this.#state.kind === 'running' && this.#places() > 0) {
      const task = this.#buffered.shift();
      if (task === undefined) break;
      const error = task[LEASE].lostTo;
      if (error === undefined) void this.#run(task);
      else callHook(this.#settings.hooks, 'onLeaseLost', task, error);
    }
    this.#isBeginning = false;
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

  async #run(task: LeasedTask<T>): Promise<void> {
    this.#running.set(task, this.#context.timing.now());
    await runTask(this.#parts, task);
    this.#settling.delete(task);
    this.#goOn();
  }

  #handled(task: LeasedTask<T>): void {
    const begun = this.#running.get(task) ?? 0;
    this.#meanTaskMs = movingMean(this.#meanTaskMs, this.#context.timing.now() - begun);
    this.#running.delete(task);
    this.#settling.add(task);
    this.#goOn();
  }

  #goOn(): void {
    this.#beginTasks();
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

function stopped(): CancelledError {
  return new CancelledError('the worker was stopped', { reason: 'CANCELLED' });
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/**
 * Number of tasks to prefetch. It is small, because prefetched tasks wait here while another worker may be idle.
 * @param meanMs mean time of a task, in ms. Undefined before the first task has ended; then nothing is prefetched.
 */
export function prefetchFor(meanMs: number | undefined, concurrency: number, bound: number): number {
  if (meanMs === undefined) return 0;
  return Math.min(bound, Math.floor((concurrency * AHEAD_MS) / Math.max(meanMs, 1)));
}

/** Moving mean: a new value counts an eighth. */
export function movingMean(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + (value - mean) / 8;
}
