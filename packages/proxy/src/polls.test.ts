import type { ServiceError } from '@grpc/grpc-js';
import { aLease, anEnqueue, anUpdate, errorInfoOf, grpcClient } from '@taskmaster/node/grpc/testing';
import { expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './testing/test-cluster.ts';

const waitingAt = ({ nodes }: TestCluster): number =>
  nodes.reduce((sum, { engine }) => sum + engine.figures().waiters, 0);

test('polls of one connection leave room for its other calls, at a proxy too', async () => {
  await using cluster = await startTestCluster({ nodes: 2, server: { maxCallsPerConnection: 8 } });
  const queues = [0, 1].map((place) => `${cluster.groupAt(place)}#empty`);
  using client = grpcClient(cluster.port);
  const poll = { waitMs: 60_000 };
  for (const named of [queues, queues, queues.slice(0, 1), queues.slice(1)]) {
    client.raw.leaseTasks(aLease({ queues: named, ...poll }), () => {});
  }
  await expect.poll(() => waitingAt(cluster)).toBe(6);
  const refused = (await client.leaseTasks(aLease({ queues, ...poll })).catch((e: unknown) => e)) as ServiceError;
  expect(errorInfoOf(refused)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '4' } });
  for (let i = 0; i < 10; i++) {
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: `${cluster.groupAt(1)}#other` })] }));
  }
});
