import { methods, type Subscription as WireSubscription } from '@taskmaster/proto';
import { emptyRequest } from '../calls/update-request.ts';
import type { ClientContext } from '../tasks/context.ts';
import { type HeaderFilter, headerFilter, wireFilter } from '../tasks/header-filter.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import {
  type NewTask,
  nameToFill,
  newPublication,
  preparePublication,
  type QueueRef,
  queueRef,
  type TaskOptions,
  TOPIC_FORMAT,
  type TopicRef,
  taskNames,
} from '../tasks/new-task.ts';
import { type PublishedTask, publishedTasks } from '../tasks/update.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import type { DataFormat } from '../values/codec.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions, UpdateOptions } from '../values/options.ts';
import { callNames, updateNames } from '../values/options.ts';
import { type AnyEveryWorkerOptions, EveryWorker, type EveryWorkerOptions } from '../worker/every-worker.ts';
import type { AnyHandler, BatchHandled, BatchHandler, BatchWorkerOptions, Handler } from '../worker/worker-options.ts';

/** How a task is published. */
export type PublishOptions = TaskOptions & UpdateOptions;

export interface SubscribeOptions extends CallOptions {
  /** Which tasks the queue gets, by their headers. Default: all. */
  readonly filter?: HeaderFilter | undefined;
  /** When the subscription ends unless the queue is subscribed again, 1 s to 1 year. Default: never. */
  readonly ttl?: Duration | undefined;
  /** Whether the queue is deleted with its tasks when the subscription ends. Default false. */
  readonly deleteQueue?: boolean | undefined;
}

/** A queue that gets what is published to a topic. */
const publishNames: OptionNames<PublishOptions> = { ...taskNames, ...updateNames };
const subscribeNames: OptionNames<SubscribeOptions> = { ...callNames, filter: true, ttl: true, deleteQueue: true };

export interface Subscription {
  /** `group#name`. */
  readonly topic: string;
  /** `group#name`. */
  readonly queue: string;
  readonly filter: HeaderFilter;
  /** In ms. Undefined: it does not end by itself. */
  readonly ttlMs: number | undefined;
  readonly deleteQueue: boolean;
  /** When it ends, by the node's clock. */
  readonly expiresAt: Date | undefined;
}

/**
 * A topic with data of type `T`: a name in a group to which queues of the group are subscribed. What is published there is
 * enqueued in all of them, in one atomic update. `client.topic(name)` makes one without a request.
 */
export class Topic<T, In = T> implements TopicRef<T, In> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly #format: DataFormat<T, In>;
  readonly #context: ClientContext;

  /** Internal: use `client.topic()`. */
  constructor(context: ClientContext, name: string, format: DataFormat<T, In>) {
    this.name = queueRef(name).name;
    this.#format = format;
    this.#context = context;
  }

  /** Internal. */
  get [TOPIC_FORMAT](): DataFormat<T, In> {
    return this.#format;
  }

  /**
   * Publishes a task: it is enqueued in every queue that is subscribed now and whose filter it passes. Resolves with these
   * queues, perhaps none, when all of it is on disk. Throws as `Queue.enqueue` does.
   */
  async publish(data: In, options: PublishOptions = {}): Promise<readonly PublishedTask[]> {
    assertKnown('publish', options, publishNames);
    const item = preparePublication(this, data, options);
    const request = emptyRequest();
    request.enqueue.push(item instanceof Promise ? await item : item);
    const { enqueued } = await this.#context.telemetry.send(request, options);
    const published = enqueued[0]?.published;
    if (published === undefined) throw brokenReply('left out the outcome of the publication');
    return publishedTasks(published);
  }

  /** A task to publish: for `client.update().enqueue()`, for `task.complete({ enqueue })`, or for the result of a handler. */
  task(data: In, options?: TaskOptions): NewTask {
    assertKnown('task', options, taskNames);
    return newPublication(this, data, options);
  }

  /**
   * Subscribes a queue of the group, or replaces its subscription and begins its time to live anew. Resolves with the end of the
   * subscription, if it has one, and with whether the queue was not subscribed before.
   * @throws InvalidRequestError; TaskMasterError with the reason `TOO_MANY_SUBSCRIPTIONS`.
   */
  async subscribe(
    queue: string | QueueRef,
    options: SubscribeOptions = {},
  ): Promise<{ readonly created: boolean; readonly expiresAt: Date | undefined }> {
    assertKnown('subscribe', options, subscribeNames);
    const request = {
      topic: this.name,
      queue: nameToFill(queueRef(queue).name),
      filter: wireFilter(options.filter ?? {}),
      ttlMs: options.ttl === undefined ? 0 : durationMs(options.ttl, 'ttl'),
      deleteQueue: options.deleteQueue ?? false,
    };
    const { created, expiresUnixMs } = await this.#context.calls.call(methods.subscribe, request, options);
    return { created, expiresAt: dateOf(expiresUnixMs) };
  }

  /** Ends the subscription of a queue. Resolves with false if it was not subscribed. */
  async unsubscribe(queue: string | QueueRef, options: CallOptions = {}): Promise<boolean> {
    assertKnown('unsubscribe', options, callNames);
    const request = { topic: this.name, queue: queueRef(queue).name };
    const { existed } = await this.#context.calls.call(methods.unsubscribe, request, options);
    return existed;
  }

  /** The subscriptions of the topic, by queue. */
  subscriptions(options: CallOptions = {}): Promise<readonly Subscription[]> {
    return listSubscriptions(this.#context, this.name, options);
  }

  /**
   * A worker that gets everything that is published: each process that makes one has a queue of its own, which is subscribed
   * while the worker runs and is deleted soon after the process has vanished.
   */
  // The order is that of `client.worker`.
  onEveryWorker<R extends BatchHandled>(
    handler: BatchHandler<T, R>,
    options: BatchWorkerOptions<T, EveryWorkerOptions<T>>,
  ): EveryWorker<T, readonly LeasedTask<T>[]>;
  onEveryWorker(handler: Handler<T>, options?: EveryWorkerOptions<T>): EveryWorker<T>;
  onEveryWorker(
    handler: AnyHandler<T>,
    options: AnyEveryWorkerOptions<T> = {},
  ): EveryWorker<T> | EveryWorker<T, readonly LeasedTask<T>[]> {
    return new EveryWorker<T>(this.#context, this, handler, options);
  }
}

/** The subscriptions of a topic, or with `group#` those of all topics of a group. */
export async function listSubscriptions(
  { calls }: ClientContext,
  topic: string,
  options: CallOptions,
): Promise<readonly Subscription[]> {
  assertKnown('subscriptions', options, callNames);
  const { subscriptions } = await calls.call(methods.listSubscriptions, { topic }, options);
  return subscriptions.map(subscriptionOf);
}

const subscriptionOf = ({
  topic,
  queue,
  filter,
  ttlMs,
  deleteQueue,
  expiresUnixMs,
}: WireSubscription): Subscription => ({
  topic,
  queue,
  filter: headerFilter(filter),
  ttlMs: ttlMs === 0 ? undefined : ttlMs,
  deleteQueue,
  expiresAt: dateOf(expiresUnixMs),
});

const dateOf = (unixMs: number): Date | undefined => (unixMs === 0 ? undefined : new Date(unixMs));
