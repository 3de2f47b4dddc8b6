import { AsyncLocalStorage } from 'node:async_hooks';
import { limits } from '@taskmaster/proto';
import { type ClientContext, CONTEXT } from '../tasks/context.ts';
import type { LeaseFrom, LeaseSource } from '../tasks/lease-source.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { assertKnown } from '../values/known-options.ts';
import { type StopOptions, stopTimeoutMs } from '../values/options.ts';
import { textOf } from '../values/thrown.ts';
import { warn } from '../values/warnings.ts';
import { HandlerThreads } from './handler-threads.ts';
import { type AnyCall, around, type Middleware } from './middleware.ts';
import type { Within } from './run-task.ts';
import {
  type AnyHandler,
  type AnyWorkerOptions,
  type BatchCall,
  concurrencyOf,
  type Handler,
  prefetchOf,
  type RunOptions,
  runNames,
  type WorkerSettings,
  workerSettings,
} from './worker-options.ts';
import { WorkerRun } from './worker-run.ts';

/** Internal: the key of a method of workers. */
export const QUEUES = Symbol('taskmaster.queues');

/** What is called for tasks, with or without middleware. Batches come as lists: one type of function stands for both. */
type Call = AnyCall<never, BatchCall>;

/**
 * Leases tasks, runs a handler for each or for several at once, and completes them, or releases them after a failure. It renews
 * their leases meanwhile. `client.worker()` makes one. `Given` is what the handler gets: a task, or with `batch` a list of tasks.
 */
export class Worker<T, Given = LeasedTask<T>> implements AsyncDisposable {
  readonly #shared: ClientContext;
  /** With the telemetry of this worker. */
  readonly #context: ClientContext;
  readonly #source: LeaseSource<T>;
  readonly #settings: WorkerSettings<T>;
  /** As given. Undefined: it follows the concurrency. */
  readonly #prefetch: number | undefined;
  readonly #contexts: WeakMap<object, Within> | undefined;
  readonly #handler: AnyHandler<T>;
  /** The handler of the user, with the middleware. */
  #call: Call;
  readonly #middleware: Middleware<Given>[] = [];
  readonly #innermost: Call;
  /** Undefined: the handler runs in this thread. */
  readonly #threads: HandlerThreads | undefined;
  #run: WorkerRun<T> | undefined;
  #isPaused = false;
  #begunBefore = 0;

  /** Internal: use `client.worker()`. */
  constructor(
    shared: ClientContext,
    source: LeaseSource<T>,
    handler: AnyHandler<T> | URL,
    options: AnyWorkerOptions<T>,
  ) {
    const context = { ...shared, telemetry: shared.telemetry.ofWorker(options.telemetry) };
    this.#shared = shared;
    this.#context = context;
    this.#source = source;
    this.#settings = workerSettings(options);
    this.#prefetch = options.prefetch;
    this.#contexts = hasTaskHooks(options) ? new WeakMap() : undefined;
    this.#threads = threadsOf(handler, options, context);
    const own = (this.#threads === undefined ? handler : this.#threads.handle.bind(this.#threads)) as Call;
    this.#innermost = this.#contexts === undefined ? own : this.#heard(own, this.#contexts);
    this.#call = this.#innermost;
    const call: Call = (given, batch) => this.#call(given, batch);
    this.#handler = inContext('handler', context.telemetry.handler(call as Handler<T>) as AnyHandler<T>);
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.#run?.active ?? 0;
  }

  /** Number of tasks whose handlers have begun, since the worker was made. */
  get begun(): number {
    return this.#begunBefore + (this.#run?.begun ?? 0);
  }

  /** Calls of the handler that run at the same time. */
  get concurrency(): number {
    return this.#settings.concurrency;
  }

  /**
   * May be set at any time. With fewer, handlers that run go on, and tasks that were leased in advance are released. If the
   * options left `prefetch` out, it follows. @throws TypeError unless it is a whole number from 1.
   */
  set concurrency(concurrency: number) {
    const before = this.#settings.concurrency;
    this.#settings.concurrency = concurrencyOf(concurrency);
    this.#settings.prefetch = prefetchOf(this.#prefetch, concurrency, this.#settings.batch);
    this.#run?.concurrencyChanged(concurrency < before);
  }

  /** Whether it was started and has not stopped. */
  get isRunning(): boolean {
    return this.#run !== undefined && !this.#run.isStopped;
  }

  /** Internal. */
  get [CONTEXT](): ClientContext {
    return this.#shared;
  }

  /** Internal: the queues from which it leases now. */
  [QUEUES](): Promise<LeaseFrom<T>> {
    return Promise.resolve(this.#source(limits.leaseQueues));
  }

  /** Whether it is paused, also before it is started. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /**
   * Adds middleware, which runs around the handler of each task that begins from now on: the first one that was added is the
   * outermost. Returns the worker. @throws TypeError if it is no function.
   */
  use(middleware: Middleware<Given>): this {
    if (typeof middleware !== 'function') throw new TypeError('use: must be a function of a task and next');
    this.#middleware.push(middleware);
    this.#call = this.#middleware.reduceRight<Call>(
      (inner, each) => around(each as Middleware<unknown>, inner as AnyCall<unknown, BatchCall>) as Call,
      this.#innermost,
    );
    return this;
  }

  /**
   * Starts to lease and handle tasks; while it is paused, when it is resumed. After a stop it may be started again. If it ends
   * by itself, as `run` says, the hook `onAttemptFailed` has got the error; without the hook the process is warned.
   * @throws TypeError if it runs, or if its stop has not ended.
   */
  start(): void {
    this.#start().finished.catch((error: unknown) => {
      if (this.#settings.givenHooks.onAttemptFailed !== undefined) return;
      warn('TASKMASTER_WORKER_ENDED', `a worker has ended, because its lease requests fail: ${textOf(error)}`);
    });
  }

  /**
   * Runs until the signal is aborted or `stop()` is called. Resolves when all handlers have ended.
   * @throws InvalidRequestError if the node refuses the lease requests, for example because of the name of a queue;
   * CancelledError if the client was closed before; TypeError as `start`.
   */
  async run(options: RunOptions = {}): Promise<void> {
    assertKnown('run', options, runNames);
    const { signal, stopTimeout } = options;
    const onAbort = (): void => void this.stop({ timeout: stopTimeout });
    const run = this.#start();
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    try {
      await run.finished;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Leases no more tasks, begins no more handlers, and releases tasks that no handler has begun, without counting the attempt.
   * Handlers that run go on. Resolves when they have ended and their tasks are completed or released. The pause is of this worker
   * only: `queue.pause()` is for all workers.
   */
  async pause(): Promise<void> {
    this.#isPaused = true;
    await this.#run?.pause();
  }

  /** Ends the pause. */
  resume(): void {
    this.#isPaused = false;
    this.#run?.resume();
  }

  /**
   * Resolves when the worker has nothing to do: its queues have no more task that it may lease now, and all tasks that it had
   * have ended. It goes on. Tasks that are delayed, that others have leased, or whose queue is paused do not count. Resolves,
   * too, when the worker has stopped. While it is paused, it waits.
   * @throws TypeError if the worker does not run; otherwise as `run`.
   */
  async untilIdle(): Promise<void> {
    if (!this.isRunning) throw new TypeError('the worker does not run');
    await this.#run?.untilIdle();
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
    stopTimeoutMs(options);
    await this.#run?.stop(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #start(): WorkerRun<T> {
    if (this.isRunning) {
      throw new TypeError('the worker runs already, or its stop has not ended');
    }
    this.#begunBefore = this.begun;
    this.#run = new WorkerRun(
      {
        context: this.#context,
        source: this.#source,
        settings: this.#settings,
        handler: this.#handler,
        contexts: this.#contexts,
        endHandlers: async () => this.#threads?.close(),
      },
      this.#isPaused,
    );
    return this.#run;
  }

  /** Calls the hook for tasks that begin, and remembers the context of their handler for the other hooks. */
  #heard(handler: Call, contexts: WeakMap<object, Within>): Call {
    const { givenHooks } = this.#settings;
    return (given: LeasedTask<T> | readonly LeasedTask<T>[], batch) => {
      const within: Within = AsyncLocalStorage.snapshot();
      for (const task of Array.isArray(given) ? (given as readonly LeasedTask<T>[]) : [given as LeasedTask<T>]) {
        contexts.set(task, within);
        callHook(givenHooks, 'onTaskStarted', task);
      }
      return handler(given as never, batch);
    };
  }
}

/** @throws TypeError unless the handler is a function, or the URL of a module. */
function threadsOf<T>(
  handler: AnyHandler<T> | URL,
  { resourceLimits, batch }: AnyWorkerOptions<T>,
  { timing }: ClientContext,
): HandlerThreads | undefined {
  if (typeof handler === 'function') {
    if (resourceLimits === undefined) return undefined;
    throw new TypeError('resourceLimits: the handler runs in this thread; give the URL of a module instead');
  }
  // Not `instanceof`: jest has another class of URLs.
  if (typeof handler !== 'object' || handler === null || typeof handler.href !== 'string') {
    throw new TypeError('the handler must be a function, or the URL of a module whose default export is one');
  }
  if (batch !== undefined) throw new TypeError('batch: a handler in a thread gets single tasks');
  return new HandlerThreads(handler, resourceLimits, timing);
}

/** Whether there are hooks that run in the context of a handler. */
const hasTaskHooks = (options: AnyWorkerOptions<never>): boolean =>
  [
    options.onTaskStarted,
    options.onTaskCompleted,
    options.onAttemptFailed,
    options.onTaskCancelled,
    options.onLeaseLost,
  ].some((hook) => hook !== undefined);
