import { bytesCodec, type Queue, type Routing, type ShardedQueue, type TaskMasterClient } from '@taskmaster/client';
import type { TaskMasterServiceClient } from '@taskmaster/proto';
import { openRawStore } from '../baselines/raw-store.ts';
import { openSyncedFile } from '../baselines/synced-file.ts';
import type { Connections } from './connections.ts';
import { openContended } from './contended.ts';
import type { Operation, Via } from './jobs.ts';
import { payload } from './payload.ts';
import { queueNamer, spreadNames } from './queue-names.ts';
import type { Operate } from './run-loop.ts';
import { dequeueOf, LEASE_MS, leaseTasks, newTasks, nextLimitKey, updateTasks } from './stub-calls.ts';

type OfKind<Kind extends Operation['kind']> = Extract<Operation, { readonly kind: Kind }>;

/** Long, because leased tasks must not become available during a measurement. */
const LONG_LEASE_MS = 60 * 60_000;

/** Prepares an operation against an endpoint. */
export async function openOperation(
  connections: Connections,
  endpoint: string,
  operation: Operation,
): Promise<Operate> {
  switch (operation.kind) {
    case 'enqueue':
      return operation.via === 'unary'
        ? stubEnqueue(await connections.stub(endpoint), operation)
        : clientEnqueue(await connections.client(endpoint, '', routingOf(operation.via)), operation);
    case 'lease-complete':
      return operation.via === 'unary'
        ? stubLeaseComplete(await connections.stub(endpoint), operation)
        : clientLeaseComplete(await connections.client(endpoint, '', routingOf(operation.via)), operation);
    case 'lease':
      return stubLease(await connections.stub(endpoint), operation);
    case 'enqueue-across': {
      const callers = Array.from({ length: operation.callers }, (_, n) => connections.stub(endpoint, `caller ${n}`));
      return enqueueAcross(await Promise.all(callers), operation);
    }
    case 'contended':
      return openContended(await connections.client(endpoint), operation);
    case 'store-enqueue':
    case 'store-lease-complete': {
      const store = await openRawStore(endpoint);
      return operation.kind === 'store-enqueue'
        ? () => store.enqueue(operation.batch)
        : () => store.leaseAndComplete(operation.batch);
    }
    case 'sync-file':
      return openSyncedFile(endpoint);
    default:
      return operation satisfies never;
  }
}

export function routingOf(via: Exclude<Via, 'unary'>): Routing {
  return via === 'direct' ? 'direct' : 'any';
}

function stubEnqueue(stub: TaskMasterServiceClient, operation: OfKind<'enqueue'>): Operate {
  const { batch, bytes, limitKeys } = operation;
  const nextQueue = queueNamer(operation.queue, operation.spread);
  return async () => {
    const { enqueued } = await updateTasks(stub, { enqueue: newTasks(nextQueue(), batch, bytes, limitKeys) });
    return enqueued.length;
  };
}

function stubLeaseComplete(stub: TaskMasterServiceClient, operation: OfKind<'lease-complete'>): Operate {
  const { batch, replace, bytes } = operation;
  const nextQueue = queueNamer(operation.queue, operation.spread);
  return async () => {
    const queue = nextQueue();
    const tasks = await leaseTasks(stub, queue, batch);
    if (tasks.length === 0) return 0;
    const enqueue = replace ? newTasks(queue, tasks.length, bytes) : [];
    await updateTasks(stub, { dequeue: tasks.map(dequeueOf), enqueue });
    return tasks.length;
  };
}

function stubLease(stub: TaskMasterServiceClient, { queue, batch }: OfKind<'lease'>): Operate {
  return async () => (await leaseTasks(stub, queue, batch, { leaseDurationMs: LONG_LEASE_MS })).length;
}

/** Each call enqueues to several queues of one group. The callers take turns. */
function enqueueAcross(
  stubs: readonly TaskMasterServiceClient[],
  { queue, queues, batch }: OfKind<'enqueue-across'>,
): Operate {
  const callers = stubs.map((stub, caller) => ({
    stub,
    names: Array.from({ length: queues }, (_, number) => `${queue}-${caller}#${number}`),
  }));
  let next = 0;
  return async () => {
    const caller = callers[next++ % callers.length];
    if (caller === undefined) return 0;
    const enqueue = caller.names.flatMap((name) => newTasks(name, batch / queues));
    const { enqueued } = await updateTasks(caller.stub, { enqueue });
    return enqueued.length;
  };
}

/** The queues of a load: one queue, a sharded queue, or many in turn. */
function queueChooser(
  client: TaskMasterClient,
  { queue: name, spread, shards }: OfKind<'enqueue' | 'lease-complete'>,
): () => Queue<Uint8Array> | ShardedQueue<Uint8Array> {
  if (shards !== undefined) {
    const sharded = client.shardedQueue(name, { shards, codec: bytesCodec });
    return () => sharded;
  }
  const open = (one: string): Queue<Uint8Array> => client.queue(one, { codec: bytesCodec });
  const only = open(name);
  if (spread === undefined) return () => only;
  const queues = spreadNames(name, spread).map(open);
  let next = 0;
  return () => queues[next++ % queues.length] ?? only;
}

function clientEnqueue(client: TaskMasterClient, operation: OfKind<'enqueue'>): Operate {
  const { batch, bytes, limitKeys } = operation;
  const nextQueue = queueChooser(client, operation);
  const keyOf = () => (limitKeys === undefined ? undefined : { limitKey: nextLimitKey(limitKeys) });
  if (batch === 1) {
    return async () => {
      await nextQueue().enqueue(payload(bytes), keyOf());
      return 1;
    };
  }
  return async () => {
    const tasks = Array.from({ length: batch }, () => ({ data: payload(bytes), ...keyOf() }));
    const outcomes = await nextQueue().enqueueMany(tasks);
    return outcomes.length;
  };
}

function clientLeaseComplete(client: TaskMasterClient, operation: OfKind<'lease-complete'>): Operate {
  const { batch, replace, bytes } = operation;
  const nextQueue = queueChooser(client, operation);
  return async () => {
    const queue = nextQueue();
    const replacements = (count: number) =>
      'task' in queue ? Array.from({ length: count }, () => queue.task(payload(bytes))) : [];
    const tasks = await queue.lease({ max: batch, leaseDuration: LEASE_MS });
    const [first, ...others] = tasks;
    if (first === undefined) return 0;
    if (others.length === 0) {
      await first.complete(replace ? { enqueue: replacements(1) } : {});
      return 1;
    }
    const update = client.update();
    for (const task of tasks) update.complete(task);
    if (replace) for (const task of replacements(tasks.length)) update.enqueue(task);
    await update.commit();
    return tasks.length;
  };
}
