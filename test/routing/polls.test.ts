import { type ServiceError, status } from '@grpc/grpc-js';
import { PeekKind } from '@taskmaster/proto';
import { watchRoutedStreams } from '@taskmaster/proxy/testing';
import {
  aLease,
  anEnqueue,
  anUpdate,
  aPeek,
  bytes,
  errorInfoOf,
  type GrpcClient,
  grpcClient,
} from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

const POLL = { waitMs: 60_000 };
const waitingAt = ({ nodes }: TestCluster): number =>
  nodes.reduce((sum, { engine }) => sum + engine.figures().waiters, 0);
/** A client with its own connection. */
const connection = (port: number): GrpcClient => grpcClient(port, { 'grpc.use_local_subchannel_pool': 1 });

/** Makes one update after the other until it is disposed of. `failures`: errors of updates. */
function bystander(port: number, queue: string) {
  const client = connection(port);
  const failures: unknown[] = [];
  let isOver = false;
  let updates = 0;
  const working = (async () => {
    while (!isOver) {
      const update = anUpdate({ enqueue: [anEnqueue({ queue })] });
      await client.updateTasks(update).catch((error: unknown) => failures.push(error));
      updates++;
    }
  })();
  return {
    failures,
    served: async (more: number) => {
      const until = updates + more;
      await expect.poll(() => updates).toBeGreaterThan(until);
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      await working;
      client[Symbol.dispose]();
    },
  };
}

test('polls of one connection leave room for its other calls, also at a proxy', async () => {
  await using cluster = await startTestCluster({ nodes: 2, server: { maxConcurrentCallsPerConnection: 8 } });
  const queues = [0, 1].map((place) => `${cluster.groupAt(place)}#empty`);
  using client = grpcClient(cluster.port);
  for (const named of [queues, queues, queues.slice(0, 1), queues.slice(1)]) {
    client.raw.leaseTasks(aLease({ queues: named, ...POLL }), () => {});
  }
  await expect.poll(() => waitingAt(cluster)).toBe(6);
  const refused = (await client.leaseTasks(aLease({ queues, ...POLL })).catch((e: unknown) => e)) as ServiceError;
  expect(errorInfoOf(refused)).toMatchObject({ reason: 'TOO_MANY_WAITERS', metadata: { limit: '4' } });
  for (let i = 0; i < 10; i++) {
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: `${cluster.groupAt(1)}#other` })] }));
  }
});

describe.each(['a proxy', 'a node that does not hold the queue'])('through %s', (way) => {
  const isProxy = way === 'a proxy';
  /** The port to call, and a group that another node holds. */
  async function start() {
    const cluster = await startTestCluster({ nodes: 2, colocated: !isProxy });
    const port = isProxy ? cluster.port : (cluster.nodes[0]?.server.port ?? 0);
    return { cluster, port, group: cluster.groupAt(1), [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
  }

  test('thousands of cancelled polls do not affect other calls, and hold no task', async () => {
    using routed = watchRoutedStreams();
    await using it = await start();
    const { cluster, port, group } = it;
    await using other = bystander(port, `${group}#other`);
    for (let wave = 0; wave < 12; wave++) {
      const ended: Promise<number>[] = [];
      const clients = [1, 2].map(() => connection(port));
      const polls = clients.flatMap(({ raw }) =>
        Array.from({ length: 100 }, () => {
          const { promise, resolve } = Promise.withResolvers<number>();
          ended.push(promise);
          return raw.leaseTasks(aLease({ queues: [`${group}#jobs`], ...POLL }), (e) => resolve(e?.code ?? status.OK));
        }),
      );
      await expect.poll(() => waitingAt(cluster), { timeout: 60_000 }).toBe(polls.length);
      for (const poll of polls) poll.cancel();
      expect(new Set(await Promise.all(ended))).toEqual(new Set([status.CANCELLED]));
      await expect.poll(() => waitingAt(cluster)).toBe(0);
      for (const client of clients) client[Symbol.dispose]();
    }
    await other.served(3);
    expect(other.failures).toEqual([]);
    expect(routed.reset).toEqual([]);

    using newcomer = connection(port);
    await newcomer.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: `${group}#jobs` })] }));
    expect((await newcomer.leaseTasks(aLease({ queues: [`${group}#jobs`] }))).tasks).toHaveLength(1);
  });

  test('thousands of answered leases do not affect other calls, over one stream for each connection', async () => {
    using routed = watchRoutedStreams();
    await using it = await start();
    const { port, group } = it;
    await using other = bystander(port, `${group}#other`);
    using client = connection(port);
    for (let round = 0; round < 12; round++) {
      const leases = Array.from({ length: 100 }, () => client.leaseTasks(aLease({ queues: [`${group}#none`] })));
      for (const { tasks } of await Promise.all(leases)) expect(tasks).toEqual([]);
    }
    await other.served(3);
    expect(other.failures).toEqual([]);
    expect(routed.reset).toEqual([]);
    // One stream for the connection of the leases, and one for that of the updates.
    expect(routed.opened).toBe(2);
  });

  test('the nodes know the addresses of workers that use unary leases', async () => {
    await using it = await start();
    const { port, group } = it;
    const queue = `${group}#jobs`;
    using client = connection(port);
    using other = connection(port);
    for (const [i, each] of [client, other, client].entries()) {
      await each.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue, pid: bytes(`${i}`) })] }));
      expect((await each.leaseTasks(aLease({ queues: [queue] }))).tasks).toHaveLength(1);
    }
    const { tasks } = await client.peekTasks(aPeek({ queue, kind: PeekKind.PEEK_KIND_LEASED, limit: 10 }));
    const [first, second, third] = tasks.map(({ workerAddress }) => workerAddress);
    expect(first).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
  });

  test('a client that closes its stream resets no stream at the nodes', async () => {
    using routed = watchRoutedStreams();
    await using it = await start();
    const { cluster, port, group } = it;
    using client = connection(port);
    for (let round = 0; round < 3; round++) {
      const stream = client.raw.stream().on('error', () => {});
      stream.write({
        calls: [{ id: 1, call: { $case: 'lease', value: aLease({ queues: [`${group}#q`], ...POLL }) } }],
      });
      await expect.poll(() => waitingAt(cluster)).toBe(1);
      stream.cancel();
      await expect.poll(() => waitingAt(cluster)).toBe(0);
    }
    await expect.poll(() => routed.closed).toBe(3);
    expect(routed.reset).toEqual([]);
  });
});
