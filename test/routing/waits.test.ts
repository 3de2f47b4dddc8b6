import { once } from 'node:events';
import { connect, TaskCancelledError } from '@taskmaster/client';
import { partitionOf, TaskOutcome } from '@taskmaster/proto';
import { watchRoutedStreams } from '@taskmaster/proxy/testing';
import { aDequeue, anEnqueue, anUpdate, aWait, bytes, grpcClient } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

const waitingAt = ({ nodes }: TestCluster): number =>
  nodes.reduce((sum, { engine }) => sum + engine.figures().taskWaits, 0);

describe.each(['a proxy', 'a node that does not hold the queue'])('through %s', (way) => {
  const isProxy = way === 'a proxy';
  async function start() {
    const cluster = await startTestCluster({ nodes: 2, colocated: !isProxy });
    const port = isProxy ? cluster.port : (cluster.nodes[0]?.server.port ?? 0);
    return {
      cluster,
      port,
      queue: `${cluster.groupAt(1)}#q`,
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    };
  }

  test.each([true, false])('a client gets the result of its task (over a stream: %s)', async (useStream) => {
    await using it = await start();
    await using client = await connect({ endpoints: `127.0.0.1:${it.port}`, useStream });
    const queue = client.queue<number>(it.queue);
    const pids = [1, 2, 3].map(String);
    for (const pid of pids) await queue.enqueue(Number(pid), { pid });
    const waiting = pids.map((pid) => queue.waitFor(pid));
    await expect.poll(() => waitingAt(it.cluster)).toBe(3);
    await using worker = client.worker(queue, async ({ data }) => ({ result: { square: data * data } }));
    worker.start();
    expect(await Promise.all(waiting)).toEqual([{ square: 1 }, { square: 4 }, { square: 9 }]);
    expect(await queue.waitFor('2')).toEqual({ square: 4 });
  });

  test('the handler of a cancelled task is told within a second, and those who wait for the task', async () => {
    await using it = await start();
    await using client = await connect(`127.0.0.1:${it.port}`);
    const queue = client.queue<string>(it.queue);
    await queue.enqueue('x', { pid: 'a' });
    const running = Promise.withResolvers<void>();
    const told: { at: number; reason: unknown }[] = [];
    await using worker = client.worker(queue, async ({ signal }) => {
      running.resolve();
      await once(signal, 'abort');
      told.push({ at: performance.now(), reason: signal.reason });
      signal.throwIfAborted();
    });
    worker.start();
    const waiting = queue.waitForEnd('a');
    await running.promise;
    await expect.poll(() => waitingAt(it.cluster), { timeout: 10_000 }).toBe(2);
    const cancelledAt = performance.now();
    await queue.cancel('a', { reason: 'too late' });
    expect(await waiting).toMatchObject({ outcome: 'cancelled', cancelReason: 'too late', attempts: 1 });
    expect(told[0]?.reason).toBeInstanceOf(TaskCancelledError);
    expect((told[0]?.at ?? Infinity) - cancelledAt).toBeLessThan(1_000);
    expect(await queue.get(['a'])).toMatchObject([{ state: 'not-found' }]);
  });

  test('cancelled waits reset no stream at the nodes', async () => {
    using routed = watchRoutedStreams();
    await using it = await start();
    using client = grpcClient(it.port);
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: it.queue, pid: bytes('a') })] }));
    const tasks = [{ queue: it.queue, pid: bytes('a') }];
    const waits = Array.from({ length: 50 }, () => client.raw.waitForTasks(aWait({ tasks, waitMs: 60_000 }), () => {}));
    await expect.poll(() => waitingAt(it.cluster)).toBe(50);
    for (const wait of waits) wait.cancel();
    await expect.poll(() => waitingAt(it.cluster)).toBe(0);
    expect(routed.reset).toEqual([]);
  });

  test('a wait ends without tasks when its way stops', async () => {
    await using it = await start();
    using client = grpcClient(it.port);
    await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue: it.queue, pid: bytes('a') })] }));
    const waiting = client.waitForTasks(aWait({ tasks: [{ queue: it.queue, pid: bytes('a') }], waitMs: 60_000 }));
    await expect.poll(() => waitingAt(it.cluster)).toBe(1);
    await it.cluster.nodes[1]?.engine.stop();
    expect(await waiting).toEqual({ ended: [] });
  });
});

test('a wait goes with its group to another node, and the result is there', async () => {
  await using cluster = await startTestCluster({ nodes: 2 });
  const group = cluster.groupAt(1);
  const queue = `${group}#q`;
  using client = grpcClient(cluster.port);
  await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue, pid: bytes('a') })] }));
  const waiting = client.waitForTasks(aWait({ tasks: [{ queue, pid: bytes('a') }], waitMs: 60_000 }));
  await expect.poll(() => waitingAt(cluster)).toBe(1);

  // The other node begins the partition anew, as if the first one were lost, so the task is unknown there.
  const id = partitionOf(group, 16) as never;
  const [other, holder] = cluster.nodes;
  if (other === undefined || holder === undefined) throw new Error('a node is missing');
  const to = { nodeId: other.nodeId, address: other.address, epoch: 3 };
  await other.engine.partitions.claim([{ id, epoch: 3 }]);
  holder.engine.partitions.locate(() => to);
  await holder.engine.partitions.release(id, other.nodeId, 3);
  const { ended } = await waiting;
  expect(ended).toMatchObject([{ task: 0, outcome: TaskOutcome.TASK_OUTCOME_UNKNOWN }]);
  await client.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue, pid: bytes('a') })] }));
  await client.updateTasks(
    anUpdate({ dequeue: [aDequeue({ queue, pid: bytes('a'), leaseToken: 0, result: bytes('x') })] }),
  );
  const result = await client.waitForTasks(aWait({ tasks: [{ queue, pid: bytes('a') }] }));
  expect(result.ended).toMatchObject([{ outcome: TaskOutcome.TASK_OUTCOME_COMPLETED, result: Buffer.from('x') }]);
});
