import { Metadata } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import {
  aLease,
  anEnqueue,
  anUpdate,
  badRequests,
  errorInfoOf,
  type GrpcClient,
  grpcClient,
} from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

let cluster: TestCluster;
let client: GrpcClient;
beforeAll(async () => {
  cluster = await startTestCluster({ colocated: true });
  client = grpcClient(cluster.nodes[0]?.server.port ?? 0);
});
afterAll(async () => {
  client[Symbol.dispose]();
  await cluster[Symbol.asyncDispose]();
});

describe('a node with a router in front', () => {
  test.each(badRequests)('refuses $what like any node: $reason', async ({ reason, field, call }) => {
    const error = await call(client).catch((thrown: unknown) => thrown);
    const info = errorInfoOf(error as Parameters<typeof errorInfoOf>[0]);
    expect(info).toMatchObject({ reason });
    if (reason !== 'REQUEST_TOO_LARGE') expect(info.metadata.field).toBe(field);
  });

  test('answers for all nodes on its own port', async () => {
    await using typed = await connect(cluster.nodes[1]?.address ?? '');
    const queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#mail`);
    for (const queue of queues) await typed.queue(queue).enqueue('x');
    expect((await typed.stats({ queues })).totals).toMatchObject({ available: 3 });
    const tasks = await typed.lease({ queues, max: 3 });
    expect(tasks).toHaveLength(3);
    for (const task of tasks) {
      const [shown] = await typed.queue(task.queue).peek({ kind: 'leased' });
      expect(shown?.workerAddress).toMatch(/^127\.0\.0\.1:\d+$/);
      await task.complete();
    }
  });

  test('waits for its own tasks and those of other nodes in one poll', async () => {
    const queues = [0, 1, 2].map((place) => `${cluster.groupAt(place)}#polled`);
    const waiters = () => cluster.nodes.map(({ engine }) => engine.figures().waiters);
    for (const [place, queue] of queues.entries()) {
      const waiting = client.leaseTasks(aLease({ queues, waitMs: 20_000 }));
      await eventually(() => expect(waiters()).toEqual([1, 1, 1]));
      await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue })] }));
      expect((await waiting).tasks.map((task) => task.queue)).toEqual([queues[place]]);
      await eventually(() => expect(waiters()).toEqual([0, 0, 0]));
    }
  });

  test('does not forward calls that were sent to it as the holder', async () => {
    const metadata = new Metadata();
    metadata.set('taskmaster-routed', '1');
    const update = anUpdate({ enqueue: [anEnqueue({ queue: `${cluster.groupAt(2)}#q` })] });
    const error = await new Promise((resolve) => {
      client.raw.updateTasks(update, metadata, (failure) => resolve(failure));
    });
    const info = errorInfoOf(error as Parameters<typeof errorInfoOf>[0]);
    expect(info).toMatchObject({ reason: 'NOT_HOLDER', metadata: { node_id: 'node-2' } });
  });
});
