import { setTimeout as delay } from 'node:timers/promises';
import { connect, isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';

const MINUTE_MS = 60_000;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.start({ nodes: 3 });
  await cluster.inPlace();
}, 2 * MINUTE_MS);
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** A client of one node, which the test does not kill. */
const connectTo = (name: string): Promise<TaskMasterClient> =>
  connect({ endpoints: cluster.node(name).endpoint, timeout: '60s', retry: { maxAttempts: 1_000 } });

describe('a sharded queue on three nodes', () => {
  test('has its tasks on all nodes, and a lease and its wait are about all of them', async () => {
    await using client = await connectTo('a');
    const jobs = client.shardedQueue<number>('spread#jobs', { shards: 24 });
    const waiting = jobs.lease({ wait: '30s' });
    await jobs.enqueue(-1);
    const [first] = await waiting;
    await first?.complete();
    await jobs.enqueueMany(Array.from({ length: 480 }, (_, at) => ({ data: at, pid: `job-${at}` })));
    const { partitions } = await client.cluster.partitions();
    expect(new Set(partitions.filter(({ tasks }) => tasks > 0).map(({ holder }) => holder?.name)).size).toBe(3);
    expect(await jobs.stats()).toMatchObject({ available: 480 });
    const tasks = await jobs.lease({ max: 1_000 });
    expect(new Set(tasks.map(({ pid }) => String(pid))).size).toBe(480);
    await Promise.all(tasks.map((task) => task.complete()));
    expect(await jobs.stats()).toMatchObject({ available: 0, leased: 0 });
  });

  test('loses nothing while the number of shards changes and a node is killed', {
    timeout: 4 * MINUTE_MS,
  }, async () => {
    await using client = await connectTo('a');
    const acknowledged = new Set<string>();
    const done = new Set<string>();
    let shards = 4;
    let over = false;
    let next = 0;
    const produce = async (): Promise<void> => {
      while (!over) {
        const pid = `job-${next++}`;
        // Each producer takes up the latest number of shards, as after a deployment.
        await client.shardedQueue<string>('live#jobs', { shards }).enqueue(pid, { pid });
        acknowledged.add(pid);
        await delay(20);
      }
    };
    // Its calls do not wait for a dead node for long: a worker has few places for tasks.
    await using impatient = await connect({ endpoints: cluster.node('a').endpoint, timeout: '2s' });
    const worker = (number: number) => {
      const made = impatient.worker(
        impatient.shardedQueue<string>('live#jobs', { shards: number }),
        ({ data }) => void done.add(data),
        // A retry of a worker whose completion got no answer is at most one lease away.
        { concurrency: 8, leaseDuration: '3s', wait: '2s' },
      );
      made.start();
      return made;
    };
    const producing = Promise.all([produce(), produce(), produce()]);
    const more = async (count: number): Promise<void> => {
      const enough = done.size + count;
      await eventually(() => expect(done.size).toBeGreaterThan(enough), { withinMs: MINUTE_MS });
    };
    // Old workers find the shards of new producers.
    await using _old = worker(4);
    await more(100);
    shards = 12;
    await more(200);
    // While a node is dead, tasks of the others are worked on.
    await cluster.node('b').kill();
    const alive = await firstAccepted(impatient.shardedQueue('live#jobs', { shards: 12 }));
    await eventually(() => expect(done.has(alive)).toBe(true), { withinMs: MINUTE_MS });
    await cluster.start('b');
    await more(100);
    // New workers with fewer shards drain the others.
    await using _new = worker(3);
    shards = 3;
    await more(100);
    over = true;
    await producing;
    await eventually(() => expect([...acknowledged].filter((pid) => !done.has(pid))).toEqual([]), {
      withinMs: MINUTE_MS,
    });
    const check = client.shardedQueue('live#jobs', { shards: 3 });
    await eventually(async () => expect(await check.stats()).toMatchObject({ available: 0, leased: 0 }), {
      withinMs: MINUTE_MS,
    });
  });
});

/** Enqueues tasks until a shard accepts one: those of the dead node do not. */
async function firstAccepted(queue: ReturnType<TaskMasterClient['shardedQueue']>): Promise<string> {
  for (let number = 0; ; number++) {
    const pid = `probe-${number}`;
    try {
      await queue.enqueue(pid, { pid });
      return pid;
    } catch (error) {
      if (!isTaskMasterError(error)) throw error;
    }
  }
}
