import { bytesCodec, type Routing, type TaskMasterClient } from '@taskmaster/client';
import type { TaskMasterServiceClient } from '@taskmaster/proto';
import { openRawStore } from '../baselines/raw-store.ts';
import type { Connections } from './connections.ts';
import type { Operation, Via } from './jobs.ts';
import { payload } from './payload.ts';
import { dequeueOf, LEASE_MS, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

/** Does an operation once; resolves with the number of tasks it did. */
export type Operate = () => Promise<number>;

type Served = Extract<Operation, { readonly via: string }>;
type OfKind<Kind extends Operation['kind']> = Extract<Operation, { readonly kind: Kind }>;

/** Makes an operation ready against an endpoint. */
export async function openOperation(
  connections: Connections,
  endpoint: string,
  operation: Operation,
): Promise<Operate> {
  switch (operation.kind) {
    case 'enqueue':
    case 'lease-complete':
      return operation.via === 'unary'
        ? byStub(await connections.stub(endpoint), operation)
        : byClient(await connections.client(endpoint, '', routingOf(operation.via)), operation);
    case 'store-enqueue':
    case 'store-lease-complete': {
      const store = await openRawStore(endpoint);
      return operation.kind === 'store-enqueue'
        ? () => store.enqueue(operation.batch)
        : () => store.leaseAndComplete(operation.batch);
    }
    default:
      return operation satisfies never;
  }
}

export function routingOf(via: Exclude<Via, 'unary'>): Routing {
  return via === 'direct' ? 'direct' : 'any';
}

function byStub(stub: TaskMasterServiceClient, operation: Served): Operate {
  return operation.kind === 'enqueue' ? stubEnqueue(stub, operation) : stubLeaseComplete(stub, operation);
}

function byClient(client: TaskMasterClient, operation: Served): Operate {
  return operation.kind === 'enqueue' ? clientEnqueue(client, operation) : clientLeaseComplete(client, operation);
}

function stubEnqueue(stub: TaskMasterServiceClient, { queue, batch }: OfKind<'enqueue'>): Operate {
  return async () => {
    const { enqueued } = await updateTasks(stub, { enqueue: newTasks(queue, batch) });
    return enqueued.length;
  };
}

function stubLeaseComplete(stub: TaskMasterServiceClient, operation: OfKind<'lease-complete'>): Operate {
  const { queue, batch, replace } = operation;
  return async () => {
    const tasks = await leaseTasks(stub, queue, batch);
    if (tasks.length === 0) return 0;
    const enqueue = replace ? newTasks(queue, tasks.length) : [];
    await updateTasks(stub, { dequeue: tasks.map(dequeueOf), enqueue });
    return tasks.length;
  };
}

function clientEnqueue(client: TaskMasterClient, { queue: name, batch }: OfKind<'enqueue'>): Operate {
  const queue = client.queue(name, { codec: bytesCodec });
  if (batch === 1) {
    return async () => {
      await queue.enqueue(payload());
      return 1;
    };
  }
  return async () => {
    const outcomes = await queue.enqueueMany(Array.from({ length: batch }, () => ({ data: payload() })));
    return outcomes.length;
  };
}

function clientLeaseComplete(client: TaskMasterClient, operation: OfKind<'lease-complete'>): Operate {
  const { batch, replace } = operation;
  const queue = client.queue(operation.queue, { codec: bytesCodec });
  const replacements = (count: number) => Array.from({ length: count }, () => queue.task(payload()));
  return async () => {
    const tasks = await queue.lease({ max: batch, for: LEASE_MS });
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
