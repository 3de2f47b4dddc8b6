import { connect, type Queue, type TaskMasterClient } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestCluster } from '../support/processes/start-cluster.ts';

const MINUTE_MS = 60_000;
const GROUPS = Array.from({ length: 60 }, (_, i) => `group-${i}`);

/** Nodes without a router: a node that does not hold the group refuses the call and names the holder. */
async function nodesAlone(): Promise<TestCluster> {
  const cluster = await TestCluster.start({ nodes: 3, flags: ['--with-router=false'] });
  await cluster.inPlace();
  return cluster;
}

const queuesOf = (client: TaskMasterClient, name: string): Queue<number>[] =>
  GROUPS.map((group) => client.queue<number>(`${group}#${name}`));

describe('a client that knows one node', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await nodesAlone();
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  const routings = ['any', 'direct'] as const;

  test.concurrent.each(routings)(
    'reaches the groups of the other nodes, and renews its leases there: routing %s',
    {
      timeout: 2 * MINUTE_MS,
    },
    async (routing) => {
      await using client = await connect({ endpoints: cluster.node('a').endpoint, routing });
      const queues = queuesOf(client, routing);
      await Promise.all(queues.map((queue, number) => queue.enqueue(number)));
      const { partitions } = await client.cluster.partitions();
      expect(new Set(partitions.filter(({ tasks }) => tasks > 0).map(({ holder }) => holder?.name)).size).toBe(3);
      for (const queue of queues) expect((await queue.peek()).length).toBe(1);
      const lost: unknown[] = [];
      const done = Promise.withResolvers<void>();
      let handled = 0;
      const workers = queues.map((queue) =>
        client.worker(
          queue,
          async () => {
            // Longer than the lease: it is renewed by a thread, which must know the holder, too.
            await new Promise((resolve) => setTimeout(resolve, 9_000));
            if (++handled === queues.length) done.resolve();
          },
          {
            leaseDuration: '4s',
            onLeaseLost: (task) => void lost.push(task.queue),
            onAttemptFailed: (error) => void lost.push(error),
          },
        ),
      );
      for (const worker of workers) worker.start();
      await done.promise;
      await Promise.all(workers.map((worker) => worker.stop()));
      expect(lost).toEqual([]);
      for (const queue of queues) expect(await queue.peek({ kind: 'head' })).toEqual([]);
    },
  );

  // Last, because one node leaves the cluster.
  test('loses nothing while a node leaves and another one restarts', { timeout: 3 * MINUTE_MS }, async () => {
    const endpoints = cluster.node('a').endpoint;
    const options = { endpoints, timeout: '30s', retry: { maxAttempts: 1_000 } } as const;
    await using any = await connect({ ...options, routing: 'any' });
    await using direct = await connect({ ...options, routing: 'direct' });
    const queues = [...queuesOf(any, 'moving by any'), ...queuesOf(direct, 'moving by direct')];
    let enqueued = 0;
    let over = false;
    const load = queues.map(async (queue) => {
      while (!over) {
        await queue.enqueue(0);
        enqueued++;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    });
    const loaded = Promise.all(load);
    const leave = async (): Promise<void> => {
      await any.cluster.drain('c');
      await Promise.race([cluster.node('c').process.ended, loaded]);
      await cluster.node('b').stop();
      await cluster.start('b');
    };
    try {
      await leave();
    } finally {
      over = true;
    }
    await loaded;
    let found = 0;
    for (const queue of queues) found += (await queue.stats()).available;
    expect(found).toBe(enqueued);
  });
});
