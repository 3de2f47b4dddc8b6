import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { QueueStats } from '@taskmaster/proto';
import { RetryingCalls } from '../calls/retrying-calls.ts';
import { UpdateJoiner } from '../calls/update-joiner.ts';
import { RequestIds } from '../calls/update-request.ts';
import { CancelWatch } from '../leases/cancel-watch.ts';
import { LeaseKeeper } from '../leases/lease-keeper.ts';
import { LoopWatch } from '../leases/loop-watch.ts';
import { type ClientContext, CONTEXT } from '../tasks/context.ts';
import {
  type ListOptions,
  listQueues,
  queueStats,
  type StatsOptions,
  type StatsReport,
} from '../tasks/introspection.ts';
import { type SeveralQueues, sourceOf } from '../tasks/lease-source.ts';
import { GIVE_BACK_MS, type LeaseOptions, leaseFrom, leaseNames } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { type QueueRef, queueRef, type TaskDefaults, taskNames } from '../tasks/new-task.ts';
import type { TaskSummary } from '../tasks/task-info.ts';
import { Update } from '../tasks/update.ts';
import type { WaitForOptions } from '../tasks/wait-for.ts';
import { Providers } from '../telemetry/providers.ts';
import { Telemetry } from '../telemetry/telemetry.ts';
import { systemTiming, type Timing, waitFor } from '../transport/timing.ts';
import type { Transport } from '../transport/transport.ts';
import { type Codec, type DataFormat, jsonCodec } from '../values/codec.ts';
import { durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import {
  type CallOptions,
  type ClientOptions,
  clientSettings,
  DEFAULT_STOP_TIMEOUT,
  type StopOptions,
  stopNames,
} from '../values/options.ts';
import type { TaskName } from '../values/task-name.ts';
import type { Worker } from '../worker/worker.ts';
import type { WorkerGroup } from '../worker/worker-group.ts';
import type {
  AnyHandler,
  AnyWorkerOptions,
  BatchHandled,
  BatchHandler,
  BatchWorkerOptions,
  Handler,
  WorkerOptions,
} from '../worker/worker-options.ts';
import {
  type BulkPreview,
  type BulkPreviewOptions,
  type BulkProgress,
  BulkRun,
  type BulkRunOptions,
  listRuns,
  previewBulk,
  startBulk,
} from './bulk.ts';
import { Cluster } from './cluster.ts';
import { DeadLetters } from './dead-letters.ts';
import { type EventsOptions, eventPosition, type QueueEvent, readEvents } from './events.ts';
import { Flow, type FlowEnds, type FlowHandle, waitForFlow } from './flow.ts';
import { stepHandler } from './flow-step.ts';
import { cancelTasks, findTasks } from './group-tasks.ts';
import {
  type LimitInfo,
  type LimitKeysOptions,
  type LimitOptions,
  limitQueues,
  listLimits,
  type UnlimitOutcome,
  unlimitQueues,
} from './limits.ts';
import { type MatchingFilter, type MatchingOptions, MatchingQueues } from './matching-queues.ts';
import {
  listPauses,
  type PauseInfo,
  type PauseOptions,
  pauseQueues,
  type ResumeOutcome,
  resumeQueues,
} from './pauses.ts';
import { type CancelOptions, Queue } from './queue.ts';
import { QueueSettingsOfClient } from './queue-settings.ts';
import { assertRuntime } from './runtime.ts';
import { Schedules } from './schedules.ts';
import { ShardedQueue } from './shards/sharded-queue.ts';
import { listSubscriptions, type Subscription, Topic } from './topic.ts';
import { type Identity, type WhoAmIOptions, whoAmI } from './who-am-i.ts';
import {
  type BatchOf,
  type DataOf,
  type DataOfHandler,
  kindsOf,
  type QueueHandler,
  type ResultOf,
  refsOf,
  workerOf,
  workersOf,
} from './workers.ts';

/** How the data of a queue is encoded. */
export interface QueueOptions<T> {
  /** Default: JSON. */
  readonly codec?: Codec<T> | undefined;
}

/** How the data of a queue is encoded and validated. */
export interface SchemaQueueOptions<Schema extends StandardSchemaV1> {
  /**
   * Any Standard Schema (zod, valibot, arktype, ...). It validates data before an enqueue is sent, and validates and transforms
   * data that is received.
   */
  readonly schema: Schema;
  /** Default: JSON. */
  readonly codec?: Codec<StandardSchemaV1.InferInput<Schema>> | undefined;
}

/** How a queue is divided. */
export interface ShardOptions {
  /** Number of shards that enqueues use, 1 to 256. Take several times the number of nodes. */
  readonly shards: number;
}

/** What the tasks of a queue have in common. */
export interface QueueTaskOptions<R = unknown, RIn = R> {
  /**
   * Any Standard Schema. It validates the results of tasks before a completion is sent, and validates and transforms those that
   * `waitFor` receives. An attempt whose result does not fit fails. Default: results are not checked.
   */
  readonly resultSchema?: StandardSchemaV1<RIn, R> | undefined;
  /**
   * The kind of the tasks that this object is for: those that it enqueues have it, and leases, workers and `peek` get no others.
   * Several objects for one queue, with a kind and a type of data each, tell its tasks apart. Default: tasks of any kind.
   */
  readonly kind?: string | undefined;
  /** Options of tasks that are enqueued with this object and do not say otherwise. Default: as the queue's settings say. */
  readonly defaults?: TaskDefaults | undefined;
}

const formatNames: OptionNames<QueueOptions<unknown> & SchemaQueueOptions<StandardSchemaV1>> = {
  codec: true,
  schema: true,
};
const queueNames: OptionNames<
  QueueOptions<unknown> & SchemaQueueOptions<StandardSchemaV1> & QueueTaskOptions<unknown>
> = { ...formatNames, resultSchema: true, kind: true, defaults: true };
const {
  pid: _pid,
  key: _key,
  kind: _kind,
  runAt: _runAt,
  startBy: _startBy,
  parent: _parent,
  ...defaultNames
} = taskNames;
const shardNames = { ...formatNames, shards: true } as const;
const matchingNames: OptionNames<QueueOptions<unknown> & MatchingOptions & { readonly schema?: unknown }> = {
  ...formatNames,
  by: true,
  weight: true,
};
const leaseFromNames = { ...leaseNames, queues: true } as const;

/** Parts that tests replace. */
export interface ClientParts {
  readonly timing?: Timing;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

/**
 * A client of a node, of a cluster, or of an engine in the same process. One client per process is enough, because calls may
 * be concurrent. `connect` and `clientOver` make one.
 *
 *     await using client = await connect('127.0.0.1:7400');
 *     const mail = client.queue<{ to: string }>('shop#mail');
 *     await mail.enqueue({ to: 'ann@example.com' });
 *     await using worker = client.worker(mail, async (task) => send(task.data.to), { concurrency: 10 });
 *     worker.start();
 */
export class TaskMasterClient implements AsyncDisposable {
  /** Members and partitions of the cluster, for operators. */
  readonly cluster: Cluster;
  /** Tasks that are enqueued again and again. */
  readonly schedules: Schedules;
  readonly #context: ClientContext;
  #closed: Promise<void> | undefined;

  /** Internal: use `connect` or `clientOver`. */
  constructor(context: ClientContext) {
    this.#context = context;
    this.cluster = new Cluster(context);
    this.schedules = new Schedules(context);
  }

  /** Internal. */
  get [CONTEXT](): ClientContext {
    return this.#context;
  }

  /** A queue with the type of its data. Sends no request: a queue exists while it holds tasks. */
  queue<Schema extends StandardSchemaV1, R = unknown, RIn = R>(
    name: string,
    options: SchemaQueueOptions<Schema> & QueueTaskOptions<R, RIn>,
  ): Queue<StandardSchemaV1.InferOutput<Schema>, StandardSchemaV1.InferInput<Schema>, R, RIn>;
  queue<T = unknown, R = unknown, RIn = R>(
    name: string,
    options?: QueueOptions<T> & QueueTaskOptions<R, RIn>,
  ): Queue<T, T, R, RIn>;
  queue<T, R, RIn>(
    name: string,
    options: QueueOptions<T> & QueueTaskOptions<R, RIn> & { readonly schema?: StandardSchemaV1<T, T> } = {},
  ): Queue<T, T, R, RIn> {
    assertKnown('queue', options, queueNames);
    const { codec = jsonCodec, schema, resultSchema, kind } = options;
    assertKnown('defaults', options.defaults, defaultNames);
    const defaults = kind === undefined ? options.defaults : { ...options.defaults, kind };
    return new Queue(this.#context, name, { codec, schema, resultSchema, kind, defaults });
  }

  /**
   * A queue that is divided into shards, because it is too busy for one node. Sends no request.
   * @throws TypeError for a wrong number of shards, and for a name that is the name of a shard.
   */
  shardedQueue<Schema extends StandardSchemaV1>(
    name: string,
    options: SchemaQueueOptions<Schema> & ShardOptions,
  ): ShardedQueue<StandardSchemaV1.InferOutput<Schema>, StandardSchemaV1.InferInput<Schema>>;
  shardedQueue<T = unknown>(name: string, options: QueueOptions<T> & ShardOptions): ShardedQueue<T>;
  shardedQueue<T>(
    name: string,
    options: QueueOptions<T> & ShardOptions & { readonly schema?: StandardSchemaV1<T, T> },
  ): ShardedQueue<T> {
    assertKnown('shardedQueue', options, shardNames);
    const format = { codec: options.codec ?? jsonCodec, schema: options.schema };
    return new ShardedQueue<T>(this.#context, name, options.shards, format);
  }

  /**
   * All queues that match a filter, also those that come later, for workers that share themselves fairly among them. Sends no
   * request.
   * @throws TypeError without a regex or a group, and for wrong options.
   */
  matchingQueues<Schema extends StandardSchemaV1>(
    filter: MatchingFilter,
    options: SchemaQueueOptions<Schema> & MatchingOptions,
  ): MatchingQueues<StandardSchemaV1.InferOutput<Schema>>;
  matchingQueues<T = unknown>(filter: MatchingFilter, options?: QueueOptions<T> & MatchingOptions): MatchingQueues<T>;
  matchingQueues<T>(
    filter: MatchingFilter,
    options: QueueOptions<T> & MatchingOptions & { readonly schema?: StandardSchemaV1<T, T> } = {},
  ): MatchingQueues<T> {
    assertKnown('matchingQueues', options, matchingNames);
    const format = { codec: options.codec ?? jsonCodec, schema: options.schema };
    return new MatchingQueues<T>(this.#context, filter, options, format as DataFormat<T, unknown>);
  }

  /**
   * Leases tasks of several queues: first from the first queue, then from the second, and so on. See `Queue.lease`.
   * @throws InvalidRequestError, OverloadedError, UnavailableError, DeadlineExceededError, CancelledError.
   */
  lease<Q extends string | QueueRef | SeveralQueues>(
    options: LeaseOptions & { readonly queues: readonly Q[] },
  ): Promise<LeasedTask<DataOf<Q>>[]> {
    assertKnown('lease', options, leaseFromNames);
    const queues = refsOf<DataOf<Q>>(options.queues);
    return leaseFrom(this.#context, sourceOf(queues), { ...options, kinds: options.kinds ?? kindsOf(queues) });
  }

  /** The dead letters that wait in a queue, to list them, put them back or drop them. Sends no request. */
  deadLetters(queue: string | QueueRef | ShardedQueue<unknown>): DeadLetters {
    if (queue instanceof ShardedQueue) return new DeadLetters(this.#context, () => queue.queues());
    const format = { codec: jsonCodec, schema: undefined };
    const queues = [new Queue(this.#context, queueRef(queue).name, format)];
    return new DeadLetters(this.#context, async () => queues);
  }

  /** The settings of queues: defaults for the tasks of queues that match a pattern. */
  get queueSettings(): QueueSettingsOfClient {
    return new QueueSettingsOfClient(this.#context);
  }

  /**
   * Pauses the queues of a group that match a pattern, `group#pattern`, also those that are created later. In the pattern, `*`
   * stands for any number of characters: `group#*` are all queues of the group. See `Queue.pause`.
   * @throws InvalidRequestError, PermissionDeniedError; TypeError for options of the wrong form.
   */
  pauseQueues(queues: string, options: PauseOptions = {}): Promise<PauseInfo> {
    return pauseQueues(this.#context, queues, options);
  }

  /** Ends the pause of exactly these queues. Other pauses that match them go on. */
  resumeQueues(queues: string, options: CallOptions = {}): Promise<ResumeOutcome> {
    return resumeQueues(this.#context, queues, options);
  }

  /** The pauses of queues of a group, the most specific ones first. Default: the default group. */
  pauses(group = '', options: CallOptions = {}): Promise<readonly PauseInfo[]> {
    return listPauses(this.#context, group, options);
  }

  /**
   * Limits how many tasks of the queues of a group that match a pattern, `group#pattern`, are leased: of all of them together,
   * also of those that are created later. The pattern is as in `pauseQueues`. Again: replaces the limit.
   * @throws InvalidRequestError, PermissionDeniedError; TypeError for options of the wrong form.
   */
  limitQueues(queues: string, options: LimitOptions): Promise<LimitInfo> {
    return limitQueues(this.#context, queues, options);
  }

  /** Ends the limit of exactly these queues. Other limits that match them stay. */
  unlimitQueues(queues: string, options: LimitKeysOptions = {}): Promise<UnlimitOutcome> {
    return unlimitQueues(this.#context, queues, options);
  }

  /** The limits of queues of a group, the most specific ones first. Default: the default group. */
  limits(group = '', options: CallOptions = {}): Promise<readonly LimitInfo[]> {
    return listLimits(this.#context, group, options);
  }

  /**
   * Starts a bulk run: the node does the same to all tasks that match, in the background, also after a crash and a move of the
   * group. Tasks that come into the queues later are left alone.
   * @throws InvalidRequestError, PermissionDeniedError; TypeError for options of the wrong form.
   */
  bulk(options: BulkRunOptions): Promise<BulkRun> {
    return startBulk(this.#context, options);
  }

  /** Counts the tasks that a bulk run would change now, and changes nothing. A large backlog takes several calls. */
  previewBulk(options: BulkPreviewOptions): Promise<BulkPreview> {
    return previewBulk(this.#context, options);
  }

  /** A bulk run that was started before. Sends no request. */
  bulkRun(group: string, id: string): BulkRun {
    return new BulkRun(this.#context, group, id);
  }

  /** The bulk runs of a group, the latest one first: the last 100, until 7 days after their end. Default: the default group. */
  bulkRuns(group = '', options: CallOptions = {}): Promise<readonly BulkProgress[]> {
    return listRuns(this.#context, group, options);
  }

  /**
   * What happens in the queues of a group that match a pattern, `group#pattern`, as it happens. The pattern is as in
   * `pauseQueues`. The iterator goes on while no node answers, after a crash, and when the group moves. If it is too slow, or was
   * away for too long, it gets an event `missed`, and then all later ones. It ends only with `follow: false`, or by an error.
   *
   *     for await (const event of client.events('shop#*', { kinds: ['completed', 'dead-lettered'] })) show(event);
   *
   * @throws InvalidRequestError, PermissionDeniedError, OverloadedError, CancelledError; TypeError for wrong options.
   */
  events(queues: string, options: EventsOptions = {}): AsyncGenerator<QueueEvent, void> {
    return readEvents(this.#context, queues, options);
  }

  /** The position of now: `events` with `after` has all that happens from now on. Take it before you list tasks. */
  eventPosition(queues: string, options: CallOptions = {}): Promise<string> {
    return eventPosition(this.#context, queues, options);
  }

  /** A topic with the type of its data. Sends no request: a topic exists while it has subscriptions. */
  topic<Schema extends StandardSchemaV1>(
    name: string,
    options: SchemaQueueOptions<Schema>,
  ): Topic<StandardSchemaV1.InferOutput<Schema>, StandardSchemaV1.InferInput<Schema>>;
  topic<T = unknown>(name: string, options?: QueueOptions<T>): Topic<T>;
  topic<T>(name: string, options: QueueOptions<T> & { readonly schema?: StandardSchemaV1<T, T> } = {}): Topic<T> {
    assertKnown('topic', options, formatNames);
    return new Topic<T>(this.#context, name, { codec: options.codec ?? jsonCodec, schema: options.schema });
  }

  /** The subscriptions of all topics of a group, by topic and queue. The empty string is the default group. */
  subscriptions(group: string, options: CallOptions = {}): Promise<readonly Subscription[]> {
    return listSubscriptions(this.#context, `${group}#`, options);
  }

  /** A new atomic change of any number of tasks of one group. */
  update(): Update {
    return new Update(this.#context);
  }

  /** Tasks of one group that wait for each other: `add` them, and `commit` enqueues them in one update. */
  flow(): Flow {
    return new Flow(this.#context);
  }

  /**
   * The handler of a worker for the steps of flows into other groups: see `Flow.step`. It sends what the steps say with the
   * rights of this client. The queue of the steps has the codec `bytesCodec`.
   */
  stepHandler(): Handler<Uint8Array> {
    return stepHandler(this.#context);
  }

  /**
   * Waits until a flow has ended, which is when its last tasks have: those for which no other task of it waits. Resolves with how
   * they have ended, by their names, with their results. An end is known for as long as the node keeps it: an hour, or as long as
   * its result.
   * @throws DeadlineExceededError after `timeout`; InvalidDataError if a result cannot be decoded.
   */
  waitForFlow<R = unknown>(flow: FlowHandle, options: WaitForOptions<R> = {}): Promise<FlowEnds<R>> {
    return waitForFlow(this.#context, flow, options);
  }

  /**
   * A worker that calls `handler` for each task of the queues. Start it with `start()` or `run()`. The handler may return
   * `{ result, enqueue }`: the result of its task, which the node keeps for `queue.waitFor`, and tasks that are enqueued, both
   * atomically with the completion. If the handler throws, the attempt fails, and the task is released with the backoff of its
   * retry policy. If it is the URL of a module, its default export runs in threads: see `ThreadHandler`. With `batch` in the
   * options the handler gets several tasks in one call, and returns nothing or a list with the outcome of each.
   */
  // First, and with a type for what the handler returns: TypeScript decides what one without parameters returns only once.
  worker<Q extends string | QueueRef | SeveralQueues, R extends BatchHandled>(
    queues: Q | readonly Q[],
    handler: BatchHandler<DataOf<Q>, R>,
    options: BatchWorkerOptions<DataOf<Q>>,
  ): Worker<DataOf<Q>, BatchOf<DataOf<Q>>>;
  worker<Q extends string | QueueRef | SeveralQueues>(
    queues: Q | readonly Q[],
    handler: Handler<DataOf<Q>, ResultOf<Q>> | URL,
    options?: WorkerOptions<DataOf<Q>>,
  ): Worker<DataOf<Q>>;
  worker<Q extends string | QueueRef | SeveralQueues>(
    queues: Q | readonly Q[],
    handler: AnyHandler<DataOf<Q>> | URL,
    options: AnyWorkerOptions<DataOf<Q>> = {},
  ): Worker<DataOf<Q>> | Worker<DataOf<Q>, BatchOf<DataOf<Q>>> {
    return workerOf<DataOf<Q>>(this.#context, queues, handler, options);
  }

  /**
   * One worker for several queues, or for several kinds of tasks, with a handler for each. `task.data` has the type of the queue:
   *
   *     client.workers([handle(mail, (task) => send(task.data.to)), handle(images, resize, { concurrency: 2 })]);
   *
   * Each queue is worked on by itself, with its own `concurrency`. `defaults` are the options of those that do not say otherwise.
   * @throws TypeError for no handlers, for two handlers of the same tasks, and for wrong options.
   */
  workers<H extends QueueHandler>(
    handlers: readonly H[],
    defaults: WorkerOptions<DataOfHandler<H>> = {},
  ): WorkerGroup<DataOfHandler<H>> {
    return workersOf<DataOfHandler<H>>(this.#context, handlers, defaults);
  }

  /**
   * Where a task is: the tasks with this PID, or as `{ key }` with this key, in the queues of a group. None: it is in no queue.
   * The empty string is the default group. A dead letter has no key, but it usually keeps its PID. The call lists the queues and
   * asks each one that holds tasks, so it is for people and rare cases; `queue.get` is one call.
   * @throws PermissionDeniedError, UnavailableError; TypeError for the name of a queue instead of a group.
   */
  findTasks(group: string, task: TaskName, options: CallOptions = {}): Promise<readonly TaskSummary[]> {
    return findTasks(this.#context, group, task, options);
  }

  /**
   * Cancels a task wherever it is in the queues of a group, as `Queue.cancel` does, also if it moves on to another queue
   * meanwhile. Resolves with the names of the queues that had it.
   * @throws TaskNotFoundError if no queue of the group has it.
   */
  cancelTasks(group: string, task: TaskName, options: CancelOptions = {}): Promise<readonly string[]> {
    return cancelTasks(this.#context, group, task, options);
  }

  /** Statistics of named queues, of queues that match a filter, or of all queues, and their sums. */
  stats(options: StatsOptions = {}): Promise<StatsReport> {
    return queueStats(this.#context, options);
  }

  /**
   * Who this client is to the node or proxy that answers, what it may do, and its quotas.
   * @throws UnauthenticatedError if its credential is not valid; PermissionDeniedError if it asks about another principal without
   * the right `manage-cluster`; InvalidRequestError; UnavailableError, ...
   */
  whoAmI(options: WhoAmIOptions = {}): Promise<Identity> {
    return whoAmI(this.#context, options);
  }

  /** The queues that hold tasks, with their statistics, by name. */
  listQueues(options: ListOptions = {}): AsyncGenerator<QueueStats, void> {
    return listQueues(this.#context, options);
  }

  /**
   * Stops the workers as `Worker.stop()` does, releases tasks of cancelled lease calls, and disconnects. Unanswered and later
   * calls reject with `CancelledError`. If `close` is called again, the shorter timeout counts.
   */
  async close(options: StopOptions = {}): Promise<void> {
    assertKnown('close', options, stopNames);
    const timeoutMs = durationMs(options.timeout ?? DEFAULT_STOP_TIMEOUT, 'timeout');
    const stopping = [...this.#context.workers].map((worker) => worker.stop(options));
    this.#closed ??= this.#close(stopping, timeoutMs);
    await this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(stopping: readonly Promise<void>[], timeoutMs: number): Promise<void> {
    const { background, keeper, calls, timing } = this.#context;
    await Promise.all(stopping);
    await waitFor(timing, Promise.allSettled(background), Math.max(timeoutMs, GIVE_BACK_MS));
    await keeper.close();
    await calls.transport.close();
  }
}

/** A client over any transport. It closes the transport when it is closed. */
export function clientOver(
  transport: Transport,
  options: ClientOptions = {},
  parts: ClientParts = {},
): TaskMasterClient {
  assertRuntime();
  const settings = clientSettings(options);
  const timing = parts.timing ?? systemTiming;
  const random = parts.random ?? Math.random;
  const { telemetry } = settings;
  const providers = telemetry === false ? undefined : new Providers(telemetry ?? {});
  const calls = new RetryingCalls({ transport, settings, timing, random, spans: providers });
  const updates = new UpdateJoiner({ calls, requestIds: new RequestIds(), timing, timeoutMs: settings.timeoutMs });
  return new TaskMasterClient({
    calls,
    telemetry: new Telemetry({ updates, calls, clientId: settings.workerLabel, providers }),
    settings,
    timing,
    random,
    keeper: new LeaseKeeper({ transport, timing, random }),
    cancellations: new CancelWatch(calls, timing),
    loop: new LoopWatch(timing),
    background: new Set(),
    workers: new Set(),
  });
}
