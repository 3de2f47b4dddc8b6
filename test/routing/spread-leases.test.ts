import { connect, type TaskMasterClient } from '@taskmaster/client';
import type { LeasedTask } from '@taskmaster/proto';
import {
  aDequeue,
  aLease,
  anEnqueue,
  anUpdate,
  bytes,
  errorInfoOf,
  type GrpcClient,
  grpcClient,
} from '@taskmaster/server/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

let cluster: TestCluster;
let client: GrpcClient;
let typed: TaskMasterClient;
let queues: readonly string[];
let run = 0;

beforeAll(async () => {
  cluster = await startTestCluster();
  client = grpcClient(cluster.port);
  typed = await connect(`127.0.0.1:${cluster.port}`);
});
afterAll(async () => {
  await typed.close();
  client[Symbol.dispose]();
  await cluster[Symbol.asyncDispose]();
});
/** New queues for each test, one on each node. */
beforeEach(() => {
  run++;
  queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#q${run}`);
});

const enqueue = (queue: string | undefined, ...pids: string[]) =>
  client.updateTasks(anUpdate({ enqueue: pids.map((pid) => anEnqueue({ queue: queue ?? '', pid: bytes(pid) })) }));
const pidsOf = (tasks: readonly LeasedTask[]): string[] => tasks.map(({ pid }) => Buffer.from(pid).toString());
const counts = async () => (await typed.stats({ queues: [...queues] })).totals;

describe('a lease of queues on several nodes', () => {
  test('takes tasks from the queues in the order in which they are named', async () => {
    for (const queue of queues) await enqueue(queue, 'b', 'a');
    const [first, second, third] = queues as [string, string, string];
    const { tasks } = await client.leaseTasks(aLease({ queues: [third, first, second], maxTasks: 3 }));
    expect(tasks.map(({ queue }) => queue)).toEqual([third, third, first]);
    expect(pidsOf(tasks)).toEqual(['a', 'b', 'a']);
    expect(await counts()).toMatchObject({ available: 3, leased: 3 });
  });

  test('begins only the first tasks of the whole reply at once', async () => {
    for (const queue of queues) await enqueue(queue, 'a', 'b');
    const starts = { now: 3, together: 1 };
    const { tasks } = await client.leaseTasks(aLease({ queues: [...queues], maxTasks: 6, starts }));
    expect(tasks.map(({ unbegun }) => unbegun)).toEqual([undefined, undefined, undefined, 0, 0, 0]);
  });

  test('whose order does not matter takes tasks from one node after the other', async () => {
    const [a, b, c] = queues as [string, string, string];
    const secondOfA = `${cluster.groupAt(0, 1)}#q${run}`;
    for (const queue of [a, b, c, secondOfA]) await enqueue(queue, 'a');
    const queuesOfTwo = [a, b, secondOfA];
    const first = await client.leaseTasks(aLease({ queues: queuesOfTwo, maxTasks: 2, anyOrder: true }));
    expect(first.tasks.map(({ queue }) => queue)).toEqual([a, secondOfA]);
    const rest = await client.leaseTasks(aLease({ queues: [...queuesOfTwo, c], maxTasks: 5, anyOrder: true }));
    expect(rest.tasks.map(({ queue }) => queue)).toEqual([b, c]);
  });

  test('of a sharded queue has tasks of all nodes, by PID, and waits at all of them', async () => {
    const jobs = typed.shardedQueue<number>(`jobs-${run}#q`, { shards: 12 });
    expect(new Set((await jobs.queues()).map(({ name }) => cluster.router.partitionOfQueue(name) % 3)).size).toBe(3);
    await jobs.enqueueMany(Array.from({ length: 60 }, (_, at) => ({ data: at, pid: String(at).padStart(2, '0') })));
    const tasks = await jobs.lease({ max: 100 });
    expect(tasks.map(({ data }) => data)).toEqual(Array.from({ length: 60 }, (_, at) => at));
    const waiting = jobs.lease({ wait: '20s' });
    await eventually(() => expect(waitersOf(cluster)).toBe(3));
    await jobs.enqueue(60);
    expect((await waiting).map(({ data }) => data)).toEqual([60]);
  });

  test('keeps the limit of bytes over all nodes', async () => {
    for (const queue of queues) await enqueue(queue, 'a');
    const { tasks } = await client.leaseTasks(aLease({ queues: [...queues], maxBytes: 6 }));
    expect(tasks).toHaveLength(1);
    await eventually(async () => expect(await counts()).toMatchObject({ available: 2, leased: 1 }));
  });

  test('waits at all nodes, and gets the first task', async () => {
    const waiting = client.leaseTasks(aLease({ queues: [...queues], waitMs: 20_000 }));
    await eventually(() => expect(waitersOf(cluster)).toBe(3));
    await enqueue(queues[1], 'a');
    expect(pidsOf((await waiting).tasks)).toEqual(['a']);
    await eventually(() => expect(waitersOf(cluster)).toBe(0));
  });

  test('leaves no task leased that its caller did not receive', async () => {
    const rounds = 20;
    for (let round = 0; round < rounds; round++) {
      const waiting = client.leaseTasks(aLease({ queues: [...queues], waitMs: 20_000, maxTasks: 1 }));
      await eventually(() => expect(waitersOf(cluster)).toBe(3));
      await Promise.all(queues.map((queue) => enqueue(queue, `r${round}`)));
      const { tasks } = await waiting;
      expect(tasks).toHaveLength(1);
      const [task] = tasks;
      await eventually(async () => expect(await counts()).toMatchObject({ available: 2, leased: 1 }));
      await client.updateTasks(
        anUpdate({ dequeue: tasks.map(({ queue, pid, leaseToken }) => aDequeue({ queue, pid, leaseToken })) }),
      );
      const rest = await client.leaseTasks(aLease({ queues: [...queues], maxTasks: 10 }));
      expect(rest.tasks).toHaveLength(2);
      // A task that was granted to the wait and released does not count an attempt.
      expect(rest.tasks.map(({ attempt }) => attempt)).toEqual([1, 1]);
      expect(task?.attempt).toBe(1);
      await dequeueAll(rest.tasks);
    }
  });

  test('ends without tasks when its wait is over', async () => {
    const { tasks } = await client.leaseTasks(aLease({ queues: [...queues], waitMs: 60 }));
    expect(tasks).toEqual([]);
  });

  test('leaves no waiter behind when its caller disconnects', async () => {
    const abort = new AbortController();
    const waiting = typed.lease({ queues: [...queues], wait: '20s', signal: abort.signal });
    const failed = expect(waiting).rejects.toMatchObject({ reason: 'CANCELLED' });
    await eventually(() => expect(waitersOf(cluster)).toBe(3));
    abort.abort();
    await failed;
    await eventually(() => expect(waitersOf(cluster)).toBe(0));
  });
});

describe('a batch', () => {
  test('of updates of several groups has each outcome in its place', async () => {
    const [a, b, c] = queues as [string, string, string];
    await enqueue(b, 'taken');
    const { results } = await client.batchUpdateTasks({
      requests: [
        anUpdate({ enqueue: [anEnqueue({ queue: c })] }),
        anUpdate({ enqueue: [anEnqueue({ queue: b, pid: bytes('taken'), mode: 2 })] }),
        anUpdate({}),
        anUpdate({ enqueue: [anEnqueue({ queue: a, pid: bytes('') })] }),
      ],
    });
    const reasons = results.map(({ result }) => (result?.$case === 'error' ? result.value.reason : 'OK'));
    expect(reasons).toEqual(['OK', 'TASK_EXISTS', 'EMPTY_REQUEST', 'OK']);
    expect(await counts()).toMatchObject({ available: 3 });
  });

  test('of leases has each outcome in its place', async () => {
    for (const queue of queues) await enqueue(queue, 'x');
    const [a, b, c] = queues as [string, string, string];
    const { results } = await client.batchLeaseTasks({
      requests: [aLease({ queues: [b] }), aLease({ queues: [''] }), aLease({ queues: [c, a], maxTasks: 5 })],
    });
    const found = results.map(({ result }) =>
      result?.$case === 'response' ? result.value.tasks.map(({ queue }) => queue) : result?.value.reason,
    );
    expect(found).toEqual([[b], 'INVALID_QUEUE', [c, a]]);
  });

  test('without requests is refused as at a node', async () => {
    const error = await client.batchUpdateTasks({ requests: [] }).catch((thrown: unknown) => thrown);
    expect(errorInfoOf(error as Parameters<typeof errorInfoOf>[0])).toMatchObject({ reason: 'EMPTY_REQUEST' });
  });
});

function waitersOf({ nodes }: TestCluster): number {
  return nodes.reduce((sum, { engine }) => sum + engine.figures().waiters, 0);
}

async function dequeueAll(tasks: readonly LeasedTask[]): Promise<void> {
  for (const { queue, pid, leaseToken } of tasks) {
    await client.updateTasks(anUpdate({ dequeue: [aDequeue({ queue, pid, leaseToken })] }));
  }
}
