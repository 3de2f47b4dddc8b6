import { randomBytes } from 'node:crypto';
import { limits, methods } from '@taskmaster/proto';
import { type ClientContext, CONTEXT } from '../tasks/context.ts';
import { type HeaderFilter, wireFilter } from '../tasks/header-filter.ts';
import { sourceOf } from '../tasks/lease-source.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { FORMAT, TOPIC_FORMAT, type TopicRef } from '../tasks/new-task.ts';
import type { CancelTimer } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import type { TaskMasterError } from '../values/errors.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { StopOptions } from '../values/options.ts';
import { Worker } from './worker.ts';
import type { AnyHandler, BatchWorkerOptions, RunOptions, WorkerOptions } from './worker-options.ts';
import { runNames, workerNames } from './worker-options.ts';

export interface EveryWorkerOptions<T = unknown> extends WorkerOptions<T> {
  /** Which tasks it gets, by their headers. Default: all. */
  readonly filter?: HeaderFilter | undefined;
  /**
   * How long the subscription lasts after the last renewal, at least 1 s. It is renewed after a third of this time. After the
   * process has vanished, its queue collects nothing from this instant on, and is deleted. Default 1 min.
   */
  readonly ttl?: Duration | undefined;
  /**
   * Name of this instance, unique among those that run. Its queue is named by the topic, a slash and the instance. An instance
   * that has crashed and starts again under its name before `ttl` is over finds what was published meanwhile. Default: random.
   */
  readonly instance?: string | undefined;
  /** Called when a renewal fails. It is tried again. */
  readonly onRenewalFailed?: ((error: TaskMasterError) => void) | undefined;
  /**
   * Called when a renewal finds that the subscription has ended, for example because the process was paused: it is subscribed
   * again, and may have missed tasks.
   */
  readonly onGap?: (() => void) | undefined;
}

export type AnyEveryWorkerOptions<T> = EveryWorkerOptions<T> | BatchWorkerOptions<T, EveryWorkerOptions<T>>;

const everyWorkerNames: OptionNames<EveryWorkerOptions> = {
  ...workerNames,
  filter: true,
  ttl: true,
  instance: true,
  onRenewalFailed: true,
  onGap: true,
};

const INSTANCE_BYTES = 8;
const UNSUBSCRIBE_TIMEOUT_MS = 3_000;

/**
 * A worker with a queue of its own that is subscribed to a topic while it runs. `topic.onEveryWorker()` makes one. It is steered
 * as any worker, but runs once: after a stop its queue is gone. While it is paused, its queue collects what is published.
 */
export class EveryWorker<T, Given = LeasedTask<T>> extends Worker<T, Given> {
  /** Name of its queue. */
  readonly queue: string;
  readonly #topic: TopicRef<T>;
  readonly #options: AnyEveryWorkerOptions<T>;
  readonly #ttlMs: number;
  readonly #hooks: Pick<EveryWorkerOptions<T>, 'onRenewalFailed' | 'onGap'>;
  readonly #stopping = new AbortController();
  #cancelRenewal: CancelTimer = () => {};
  #renewing: Promise<void> | undefined;
  #started: Promise<void> | undefined;
  /** Settles as `Worker.run()` does. */
  #running: Promise<void> | undefined;
  #unsubscribed: Promise<void> | undefined;

  /** Internal: use `topic.onEveryWorker()`. */
  constructor(context: ClientContext, topic: TopicRef<T>, handler: AnyHandler<T>, options: AnyEveryWorkerOptions<T>) {
    assertKnown('onEveryWorker', options, everyWorkerNames);
    const queue = `${topic.name}/${options.instance ?? randomBytes(INSTANCE_BYTES).toString('hex')}`;
    super(context, sourceOf([{ name: queue, [FORMAT]: topic[TOPIC_FORMAT] }]), handler, options);
    this.queue = queue;
    this.#topic = topic;
    this.#options = options;
    this.#hooks = {
      onRenewalFailed: inContext('onRenewalFailed', options.onRenewalFailed),
      onGap: inContext('onGap', options.onGap),
    };
    this.#ttlMs = durationMs(options.ttl ?? '1m', 'ttl');
    if (this.#ttlMs < limits.minSubscriptionMs) throw new TypeError(`ttl: at least ${limits.minSubscriptionMs} ms`);
  }

  /**
   * Subscribes and starts to handle tasks. Resolves when it is subscribed: it gets everything that is published from then on.
   * @throws TypeError if it was started or stopped before; TaskMasterError if it cannot subscribe.
   */
  override start(): Promise<void> {
    if (this.#started !== undefined || this.#unsubscribed !== undefined) {
      return Promise.reject(new TypeError('the worker was started or stopped before'));
    }
    this.#started = this.#subscribe().then(() => {
      if (this.#unsubscribed !== undefined) return;
      this[CONTEXT].workers.add(this);
      this.#running = super.run();
      // The worker has failed: end the subscription, so that its queue collects nothing more. `run()` reports the error.
      this.#running.catch(() => this.stop());
      this.#renewLater();
    });
    return this.#started;
  }

  /**
   * Starts, and runs until the signal is aborted or `stop()` is called. Resolves when all handlers have ended and it is not
   * subscribed any more. Throws as `start()` and `Worker.run()` do.
   */
  override async run(options: RunOptions = {}): Promise<void> {
    assertKnown('run', options, runNames);
    const { signal, stopTimeout } = options;
    await this.start();
    const onAbort = (): void => void this.stop({ timeout: stopTimeout });
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    try {
      await this.#running;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      await this.stop({ timeout: stopTimeout });
    }
  }

  /**
   * Stops the worker as `Worker.stop()` does, ends the subscription, and deletes the queue with the tasks that are left. Without
   * an answer for 3 s the subscription ends by its time to live.
   */
  override async stop(options: StopOptions = {}): Promise<void> {
    const stopped = super.stop(options);
    this.#unsubscribed ??= this.#unsubscribe(stopped);
    await Promise.all([stopped, this.#unsubscribed]);
  }

  /** As `Worker.untilIdle`. If it is being started, it is subscribed first. */
  override async untilIdle(): Promise<void> {
    await this.#started;
    await super.untilIdle();
  }

  async #unsubscribe(stopped: Promise<void>): Promise<void> {
    const { calls, workers } = this[CONTEXT];
    this.#cancelRenewal();
    this.#stopping.abort();
    const isSubscribed = await (this.#started?.then(
      () => true,
      () => false,
    ) ?? false);
    await stopped;
    // A renewal that arrives later would subscribe the queue again.
    await this.#renewing;
    workers.delete(this);
    if (!isSubscribed) return;
    const request = { topic: this.#topic.name, queue: this.queue };
    await calls
      .call(methods.unsubscribe, request, { timeout: UNSUBSCRIBE_TIMEOUT_MS })
      .catch((error: unknown) => callHook(this.#hooks, 'onRenewalFailed', asTaskMasterError(error)));
  }

  async #subscribe(signal?: AbortSignal): Promise<boolean> {
    const { calls } = this[CONTEXT];
    const request = {
      topic: this.#topic.name,
      queue: this.queue,
      filter: wireFilter(this.#options.filter ?? {}),
      ttlMs: this.#ttlMs,
      deleteQueue: true,
    };
    const { created } = await calls.call(methods.subscribe, request, { signal });
    return created;
  }

  #renewLater(): void {
    this.#cancelRenewal = this[CONTEXT].timing.after(this.#ttlMs / 3, () => {
      this.#renewing = this.#renew(this.#stopping.signal);
    });
  }

  /** Never rejects. */
  async #renew(signal: AbortSignal): Promise<void> {
    try {
      const isNew = await this.#subscribe(signal);
      if (isNew && !signal.aborted) callHook(this.#hooks, 'onGap');
    } catch (error) {
      if (!signal.aborted) callHook(this.#hooks, 'onRenewalFailed', asTaskMasterError(error));
    }
    if (!signal.aborted) this.#renewLater();
  }
}
