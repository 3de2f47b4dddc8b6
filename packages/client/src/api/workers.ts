import type { ClientContext } from '../tasks/context.ts';
import { isSeveral, type SeveralQueues, sourceOf } from '../tasks/lease-source.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { definedIn, FORMAT, type QueueRef, queueRef } from '../tasks/new-task.ts';
import { kindPatterns } from '../values/kinds.ts';
import { assertKnown } from '../values/known-options.ts';
import { Worker } from '../worker/worker.ts';
import { WorkerGroup } from '../worker/worker-group.ts';
import {
  type AnyHandler,
  type AnyWorkerOptions,
  type BatchHandled,
  type BatchHandler,
  type BatchWorkerOptions,
  type Handler,
  type WorkerOptions,
  workerNames,
} from '../worker/worker-options.ts';

/** What a worker can lease from. */
export type AnyQueue = string | QueueRef | SeveralQueues;

/** Type of the data of a queue. A queue that is given by name has unknown data, in JSON. */
export type DataOf<Q> = Q extends QueueRef<infer T, infer _In> ? T : Q extends SeveralQueues<infer T> ? T : unknown;

/** Type of what the tasks of a queue leave as their results. */
export type ResultOf<Q> = Q extends QueueRef<infer _T, infer _In, infer _R, infer RIn> ? RIn : unknown;

/** A queue with its handler and its options, for `client.workers`. `handle` makes one. `T` is the type of its data. */
export interface QueueHandler<out T = unknown> {
  readonly queue: AnyQueue;
  /** Internal. */
  readonly work: WorkOf;
  /** Internal: carries the type of the data. */
  readonly [DATA]?: T;
}

/** Type of the data of a handler of `handle`. */
export type DataOfHandler<H> = H extends QueueHandler<infer T> ? T : never;

/** Internal. */
declare const DATA: unique symbol;

interface WorkOf {
  readonly handler: AnyHandler<never> | URL;
  readonly options: AnyWorkerOptions<never>;
}

/**
 * A queue and its handler, for `client.workers`. The options go before those of all. A handler of one kind of tasks belongs to a
 * queue of this kind: `client.queue<Resize>('shop#images', { kind: 'resize@2' })`.
 * @throws TypeError for options of the wrong form.
 */
export function handle<Q extends AnyQueue, R extends BatchHandled>(
  queue: Q,
  handler: BatchHandler<DataOf<Q>, R>,
  options: BatchWorkerOptions<DataOf<Q>>,
): QueueHandler<DataOf<Q>>;
export function handle<Q extends AnyQueue>(
  queue: Q,
  handler: Handler<DataOf<Q>, ResultOf<Q>> | URL,
  options?: WorkerOptions<DataOf<Q>>,
): QueueHandler<DataOf<Q>>;
export function handle(
  queue: AnyQueue,
  handler: AnyHandler<never> | URL,
  options: AnyWorkerOptions<never> = {},
): QueueHandler<never> {
  assertKnown('handle', options, workerNames);
  return { queue, work: { handler, options } };
}

/** See `TaskMasterClient.worker`. */
export function workerOf<T>(
  context: ClientContext,
  queues: AnyQueue | readonly AnyQueue[],
  handler: AnyHandler<T> | URL,
  options: AnyWorkerOptions<T>,
): Worker<T> {
  assertKnown('worker', options, workerNames);
  const refs = refsOf<T>(isList(queues) ? queues : [queues]);
  return new Worker(context, sourceOf(refs), handler, { ...options, kinds: options.kinds ?? kindsOf(refs) });
}

/** See `TaskMasterClient.workers`. */
export function workersOf<T>(
  context: ClientContext,
  handlers: readonly QueueHandler[],
  defaults: WorkerOptions<T>,
): WorkerGroup<T> {
  assertKnown('workers', defaults, workerNames);
  if (!Array.isArray(handlers) || handlers.length === 0 || !handlers.every(isQueueHandler)) {
    throw new TypeError('workers: must be a list of at least one queue with its handler, as handle() makes them');
  }
  if (defaults.batch !== undefined) throw new TypeError('workers: give batch to handle(), for one queue');
  const workers = handlers.map(({ queue, work: { handler, options } }) =>
    workerOf<T>(context, queue, handler as AnyHandler<T> | URL, {
      ...defaults,
      ...definedIn(options as WorkerOptions<T>),
    }),
  );
  assertApart(handlers, defaults);
  return new WorkerGroup(workers);
}

const isQueueHandler = (one: unknown): boolean =>
  typeof one === 'object' && one !== null && 'queue' in one && 'work' in one;

/** @throws TypeError if two handlers could get the same task: which one does would be chance. */
function assertApart(
  handlers: readonly QueueHandler[],
  defaults: { readonly kinds?: readonly string[] | undefined },
): void {
  const taken = new Map<string, readonly string[] | undefined>();
  for (const { queue, work } of handlers) {
    const [ref] = refsOf([queue]);
    if (ref === undefined) continue;
    const kinds = work.options.kinds ?? defaults.kinds ?? kindsOf([ref]);
    const others = taken.get(ref.name);
    if (taken.has(ref.name) && (others === undefined || (kinds?.some((kind) => others.includes(kind)) ?? true))) {
      throw new TypeError(
        `workers: ${ref.name} has two handlers for the same tasks; give each a queue of its own kind`,
      );
    }
    taken.set(ref.name, kinds && [...(others ?? []), ...(kindPatterns(kinds)?.patterns ?? [])]);
  }
}

/** The kind of the tasks of these queues. @throws TypeError if they differ: their tasks have different data. */
export function kindsOf(queues: readonly (QueueRef | SeveralQueues)[]): string[] | undefined {
  const kinds = new Set(queues.map((queue) => (isSeveral(queue) ? undefined : queue[FORMAT].kind)));
  const [kind] = kinds;
  if (kinds.size > 1)
    throw new TypeError('queues: they have different kinds; use client.workers, with a handler for each');
  return kind === undefined ? undefined : [kind];
}

/** The cast is safe: `queueRef` gives each queue the type of its data, which the compiler cannot see. */
export function refsOf<T>(queues: readonly AnyQueue[]): readonly (QueueRef<T> | SeveralQueues<T>)[] {
  return queues.map((queue) => (isSeveral(queue) ? queue : queueRef(queue)) as QueueRef<T>);
}

function isList<Q>(queues: Q | readonly Q[]): queues is readonly Q[] {
  return Array.isArray(queues);
}

/** What `use` of a worker of batches gets. */
export type BatchOf<T> = readonly LeasedTask<T>[];
