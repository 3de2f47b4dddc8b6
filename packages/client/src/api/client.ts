import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { QueueStats } from '@taskmaster/proto';
import { Caller } from '../calls/caller.ts';
import { RequestIds } from '../calls/request-ids.ts';
import { UpdateJoiner } from '../calls/update-joiner.ts';
import { LeaseKeeper } from '../leases/lease-keeper.ts';
import { LoopWatch } from '../leases/loop-watch.ts';
import type { ClientContext } from '../tasks/context.ts';
import {
  type ListOptions,
  listQueues,
  queueStats,
  type StatsOptions,
  type StatsReport,
} from '../tasks/introspection.ts';
import { GIVE_BACK_MS, type LeaseOptions, leaseTasks } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { type QueueRef, queueRef } from '../tasks/new-task.ts';
import { Update } from '../tasks/update.ts';
import { systemTiming, type Timing, waitFor } from '../transport/timing.ts';
import type { Transport } from '../transport/transport.ts';
import { type Codec, jsonCodec } from '../values/codec.ts';
import { durationMs } from '../values/duration.ts';
import { type ClientOptions, clientSettings, DEFAULT_STOP_TIMEOUT, type StopOptions } from '../values/options.ts';
import { Worker } from '../worker/worker.ts';
import type { Handler, WorkerOptions } from '../worker/worker-options.ts';
import { Cluster } from './cluster.ts';
import { Queue } from './queue.ts';
import { assertRuntime } from './runtime.ts';

/** How a queue's data becomes bytes and back. */
export interface QueueOptions<T> {
  /** Default: JSON. */
  readonly codec?: Codec<T> | undefined;
}

/** As `QueueOptions`, with a check of the data. */
export interface SchemaQueueOptions<Schema extends StandardSchemaV1> {
  /** Any Standard Schema (zod, valibot, arktype, ...): checks before an enqueue is sent, checks and transforms on receipt. */
  readonly schema: Schema;
  /** Default: JSON. */
  readonly codec?: Codec<StandardSchemaV1.InferInput<Schema>> | undefined;
}

/** What the tasks of a queue hold; a queue named by text alone holds anything JSON can say. */
export type DataOf<Q> = Q extends QueueRef<infer T, infer _In> ? T : unknown;

/** Parts that tests replace. */
export interface ClientParts {
  readonly timing?: Timing;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

/**
 * A client of a node, of a cluster through its proxies, or of an engine in the same process. Safe for concurrent use;
 * make one for each process. Made by `connect` or `clientOver`.
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
  readonly #context: ClientContext;
  #closed: Promise<void> | undefined;

  /** Not for callers: `connect` and `clientOver` make one. */
  constructor(context: ClientContext) {
    this.#context = context;
    this.cluster = new Cluster(context);
  }

  /** A queue with its data's type. Asks no node: a queue exists while it holds tasks. */
  queue<Schema extends StandardSchemaV1>(
    name: string,
    options: SchemaQueueOptions<Schema>,
  ): Queue<StandardSchemaV1.InferOutput<Schema>, StandardSchemaV1.InferInput<Schema>>;
  queue<T = unknown>(name: string, options?: QueueOptions<T>): Queue<T>;
  queue<T>(name: string, options: QueueOptions<T> & { readonly schema?: StandardSchemaV1<T, T> } = {}): Queue<T> {
    return new Queue<T>(this.#context, name, { codec: options.codec ?? jsonCodec, schema: options.schema });
  }

  /**
   * Leases tasks of several queues, those of the first one first. See `Queue.lease`.
   * @throws InvalidRequestError, Overloaded, Unavailable, DeadlineExceededError, Cancelled.
   */
  lease<Q extends string | QueueRef>(
    options: LeaseOptions & { readonly queues: readonly Q[] },
  ): Promise<LeasedTask<DataOf<Q>>[]> {
    return leaseTasks(this.#context, refs(options.queues), options);
  }

  /** Begins an atomic change of any number of tasks of one group. */
  update(): Update {
    return new Update(this.#context);
  }

  /**
   * A worker that calls `handler` for each task of the queues. Begin it with `start()` or `run()`. The handler's result
   * is enqueued atomically with the completion of its task; what it throws fails the attempt: the task is released as
   * its retry policy says, or else after the worker's own backoff.
   */
  worker<Q extends string | QueueRef>(
    queues: Q | readonly Q[],
    handler: Handler<DataOf<Q>>,
    options: WorkerOptions<DataOf<Q>> = {},
  ): Worker<DataOf<Q>> {
    return new Worker(this.#context, refs(isList(queues) ? queues : [queues]), handler, options);
  }

  /** Statistics of any subset of queues, and their sums. */
  stats(options: StatsOptions = {}): Promise<StatsReport> {
    return queueStats(this.#context, options);
  }

  /** The queues that hold tasks, with their statistics, in order of their names. */
  listQueues(options: ListOptions = {}): AsyncGenerator<QueueStats, void> {
    return listQueues(this.#context, options);
  }

  /**
   * Stops the workers as `Worker.stop()` does, gives back what leases that were given up have got, and disconnects. Later
   * calls, and those without an answer by then, are `CancelledError`. Called again, the shorter timeout counts.
   */
  async close(options: StopOptions = {}): Promise<void> {
    const timeoutMs = durationMs(options.timeout ?? DEFAULT_STOP_TIMEOUT, 'timeout');
    const stopping = [...this.#context.workers].map((worker) => worker.stop(options));
    this.#closed ??= this.#close(stopping, timeoutMs);
    await this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(stopping: readonly Promise<void>[], timeoutMs: number): Promise<void> {
    const { background, keeper, caller, timing } = this.#context;
    await Promise.all(stopping);
    await waitFor(timing, Promise.allSettled(background), Math.max(timeoutMs, GIVE_BACK_MS));
    await keeper.close();
    await caller.transport.close();
  }
}

/** A client over any transport; it closes the transport with itself. */
export function clientOver(
  transport: Transport,
  options: ClientOptions = {},
  parts: ClientParts = {},
): TaskMasterClient {
  assertRuntime();
  const settings = clientSettings(options);
  const timing = parts.timing ?? systemTiming;
  const random = parts.random ?? Math.random;
  const caller = new Caller({ transport, settings, timing, random });
  const requestIds = new RequestIds();
  return new TaskMasterClient({
    caller,
    updates: new UpdateJoiner({ caller, requestIds, timing, timeoutMs: settings.timeoutMs }),
    settings,
    timing,
    random,
    keeper: new LeaseKeeper({ transport, timing, random }),
    loop: new LoopWatch(timing),
    background: new Set(),
    workers: new Set(),
  });
}

/** `DataOf` is what `queueRef` makes of each name; the compiler cannot follow it through the map. */
function refs<Q extends string | QueueRef>(queues: readonly Q[]): readonly QueueRef<DataOf<Q>>[] {
  return queues.map((queue) => queueRef(queue) as QueueRef<DataOf<Q>>);
}

function isList<Q>(queues: Q | readonly Q[]): queues is readonly Q[] {
  return Array.isArray(queues);
}
