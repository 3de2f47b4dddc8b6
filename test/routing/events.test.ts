import { connect, pidText } from '@taskmaster/client';
import { EventKind, hashOfToken, partitionOf, type ReadEventsRequest } from '@taskmaster/proto';
import { watchRoutedStreams } from '@taskmaster/proxy/testing';
import { AccessTable } from '@taskmaster/server/access';
import { IdentitySeal } from '@taskmaster/server/calls';
import { accessOf, grpcClient } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

const waitingAt = ({ nodes }: TestCluster): number =>
  nodes.reduce((sum, { engine }) => sum + engine.figures().eventReaders, 0);

const aRead = (queues: string, change: Partial<ReadEventsRequest> = {}): ReadEventsRequest => ({
  queues,
  after: '',
  kinds: [],
  task: undefined,
  maxEvents: 0,
  waitMs: 60_000,
  ...change,
});

describe.each(['a proxy', 'a node that does not hold the queue'])('through %s', (way) => {
  async function start() {
    const isProxy = way === 'a proxy';
    const cluster = await startTestCluster({ nodes: 2, colocated: !isProxy });
    const port = isProxy ? cluster.port : (cluster.nodes[0]?.server.port ?? 0);
    const queue = `${cluster.groupAt(1)}#q`;
    return { cluster, port, queue, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
  }

  test.each([true, false])('a client follows its group (over a stream: %s)', async (useStream) => {
    await using it = await start();
    await using client = await connect({ endpoints: `127.0.0.1:${it.port}`, useStream });
    const queue = client.queue<number>(it.queue);
    const events = client.events(it.queue, { after: await client.eventPosition(it.queue) });
    const first = events.next();
    await expect.poll(() => waitingAt(it.cluster)).toBe(1);
    await queue.enqueue(1, { pid: 'a' });
    expect((await first).value).toMatchObject({ kind: 'enqueued', queue: it.queue });
    const [task] = await queue.lease();
    await task?.complete();
    expect((await events.next()).value).toMatchObject({ kind: 'leased' });
    expect((await events.next()).value).toMatchObject({ kind: 'completed' });
  });

  test('many readers of one client share its stream, and cancelled ones reset none at the nodes', async () => {
    using routed = watchRoutedStreams();
    await using it = await start();
    await using client = await connect(`127.0.0.1:${it.port}`);
    const abort = new AbortController();
    const readers = Array.from({ length: 1_500 }, (_, at) =>
      client.events(it.queue, { pid: String(at), signal: abort.signal }).next(),
    );
    await expect.poll(() => waitingAt(it.cluster), { timeout: 20_000 }).toBe(1_500);
    await client.queue(it.queue).enqueue('x', { pid: '7' });
    const seen = await readers[7];
    expect(pidText(seen?.value?.pid ?? Buffer.alloc(0))).toBe('7');
    expect(waitingAt(it.cluster)).toBe(1_499);
    const ended = Promise.allSettled(readers);
    abort.abort();
    await ended;
    await expect.poll(() => waitingAt(it.cluster)).toBe(0);
    expect(routed.reset).toEqual([]);
  });

  test('a read ends without events when its way stops, and says where to go on', async () => {
    await using it = await start();
    using client = grpcClient(it.port);
    const reading = client.readEvents(aRead(it.queue));
    await expect.poll(() => waitingAt(it.cluster)).toBe(1);
    await it.cluster.nodes[1]?.engine.stop();
    expect(await reading).toEqual({ events: [], position: expect.stringMatching(/^\d+(\.[\da-z]+)?-\d+$/) });
  });
});

test.each([true, false])(
  'a read that waits ends when its caller loses the right (over a stream: %s)',
  async (useStream) => {
    const tokens = [hashOfToken('tm_reader')];
    const rules = (group: string) => ({
      principals: [{ name: 'reader', tokens, rights: [{ groups: [group], allow: ['read'] as const }] }],
    });
    const access = accessOf(rules('*'));
    const guard = { access, audit: { record: () => {} }, identities: new IdentitySeal(['a key for this test only']) };
    await using cluster = await startTestCluster({ nodes: 2, guard });
    const options = { token: 'tm_reader', insecure: true, useStream };
    await using client = await connect({ endpoints: `127.0.0.1:${cluster.port}`, ...options });
    const next = client.events(`${cluster.groupAt(1)}#q`).next();
    await expect.poll(() => waitingAt(cluster)).toBe(1);
    access.replace({ table: new AccessTable(rules('another')) });
    await expect(next).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    await expect.poll(() => waitingAt(cluster)).toBe(0);
  },
);

test('a group that begins anew on another node tells its readers that they may have missed something', async () => {
  await using cluster = await startTestCluster({ nodes: 2 });
  const group = cluster.groupAt(1);
  const queue = `${group}#q`;
  await using client = await connect(`127.0.0.1:${cluster.port}`);
  const events = client.events(queue);
  const first = events.next();
  await expect.poll(() => waitingAt(cluster)).toBe(1);
  const id = partitionOf(group, 16) as never;
  const [other, holder] = cluster.nodes;
  if (other === undefined || holder === undefined) throw new Error('a node is missing');
  const to = { nodeId: other.nodeId, address: other.address, epoch: 3 };
  await other.engine.partitions.claim([{ id, epoch: 3 }]);
  holder.engine.partitions.locate(() => to);
  await holder.engine.partitions.release(id, other.nodeId, 3);
  expect((await first).value).toMatchObject({ kind: 'missed', queue: '', at: undefined });
  await client.queue(queue).enqueue('x', { pid: 'a' });
  expect((await events.next()).value).toMatchObject({ kind: 'enqueued' });
});

test('the kinds of the protocol have names in the client', async () => {
  const { queueEventKinds } = await import('@taskmaster/client');
  expect(queueEventKinds).toHaveLength(
    Object.keys(EventKind).filter((name) => name.startsWith('EVENT_KIND_')).length - 1,
  );
});
