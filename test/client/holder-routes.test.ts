import { createServer } from 'node:net';
import { credentials } from '@grpc/grpc-js';
import {
  clientOver,
  connect,
  type ReconnectEvent,
  type TaskMasterClient,
  type TaskMasterError,
} from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { GrpcTransport, ManualTiming } from '@taskmaster/client/testing';
import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { fakeMember, fakePartition } from './support/fake-cluster.ts';
import { TestNode } from './support/test-node.ts';

const patience = { timeout: 20_000, interval: 5 };
const PARTITIONS = 2;
const groups = Array.from({ length: 20 }, (_, i) => `g${i}`);
/** Queues of the first and of the second partition. */
const [first = '', second = ''] = [0, 1].map(
  (id) => `${groups.find((name) => partitionOf(name, PARTITIONS) === id)}#q`,
);

/** Says that another node holds the partition, and at which epoch. */
function denial(partition: number, holder?: { readonly endpoint: string }, epoch = 2): TaskMasterError {
  const told = holder === undefined ? undefined : { holder: holder.endpoint, node_id: 'x', epoch: String(epoch) };
  return makeError('not here', { reason: 'NOT_HOLDER', metadata: { partition: String(partition), ...told } });
}

/** Tells all servers of a cluster in which these nodes hold the two partitions. */
function tell(servers: readonly TestNode[], [a, b]: readonly [string, string], epoch = 1): void {
  for (const { cluster } of servers) {
    cluster.members = [fakeMember({ name: 'a', rpcAddress: a }), fakeMember({ name: 'b', rpcAddress: b })];
    cluster.partitions = [fakePartition({ id: 0, holder: 'a', epoch }), fakePartition({ id: 1, holder: 'b', epoch })];
  }
}

/** A proxy, which serves everything itself here, and two nodes that each hold one of two partitions. */
async function proxyAndNodes() {
  const [proxy, a, b] = await Promise.all([TestNode.start(), TestNode.start(), TestNode.start()]);
  tell([proxy, a, b], [a.endpoint, b.endpoint]);
  return {
    proxy,
    a,
    b,
    async [Symbol.asyncDispose]() {
      for (const server of [proxy, a, b]) server.kill();
    },
  };
}

/** A client that has read the table and reached both nodes. */
async function direct(proxy: TestNode, nodes: readonly TestNode[]): Promise<TaskMasterClient> {
  const up: string[] = [];
  const onReconnected = ({ endpoint, state }: ReconnectEvent): void =>
    void (state === 'connected' && up.push(endpoint));
  const client = await connect({ endpoints: proxy.endpoint, routing: 'direct', onReconnected: onReconnected });
  await vi.waitUntil(() => nodes.every(({ endpoint }) => up.includes(endpoint)), patience);
  return client;
}

/** How many tasks each of the servers has in the queue. */
async function tasksIn(queue: string, servers: readonly TestNode[]): Promise<number[]> {
  return (await Promise.all(servers.map((server) => server.pids(queue)))).map(({ length }) => length);
}

async function unusedEndpoint(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('a TCP port has a number');
  return `127.0.0.1:${address.port}`;
}

describe('a node that does not hold the group', () => {
  test.each([true, false])('names the holder: this call and later ones go there: useStream %s', async (useStream) => {
    await using servers = await proxyAndNodes();
    const { a, b } = servers;
    a.refusalOf = (queue) => (queue === second ? denial(1, b) : undefined);
    // Following is no repetition: one attempt is enough.
    await using client = await connect({ endpoints: a.endpoint, useStream, retry: { maxAttempts: 1 } });
    await client.queue(second).enqueue(1);
    expect(await tasksIn(second, [a, b])).toEqual([0, 1]);
    a.refusal = makeError('asked again', { reason: 'INTERNAL' });
    await client.queue(second).enqueue(2);
    expect(await client.queue(second).peek({ limit: 5 })).toHaveLength(2);
    expect(await tasksIn(second, [a, b])).toEqual([0, 2]);
    expect(b.routed).toBeGreaterThan(0);
    expect(a.routed).toBe(0);
  });

  test('may not know the holder: the call is repeated until a node serves it', async () => {
    await using servers = await proxyAndNodes();
    const { a } = servers;
    let denials = 0;
    a.refusalOf = () => (++denials <= 3 ? denial(0) : undefined);
    await using client = await connect(a.endpoint);
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [a])).toEqual([1]);
    expect(denials).toBe(4);
  });

  test('ends a wait for tasks, which continues at the holder', async () => {
    await using servers = await proxyAndNodes();
    const { a, b } = servers;
    await using client = await connect(a.endpoint);
    const moved = Promise.withResolvers<never>();
    a.leaseInstead = () => moved.promise;
    const leasing = client.queue(second).lease({ wait: '1m' });
    await vi.waitUntil(() => a.messages.length === 1, patience);
    moved.reject(denial(1, b));
    await vi.waitUntil(() => b.waiting === 1, patience);
    const waits = b.leases.map(({ waitMs }) => waitMs);
    expect(waits).toEqual([expect.closeTo(60_000, -5)]);
    expect(waits[0]).toBeLessThanOrEqual(60_000);
    await client.queue(second).enqueue(1);
    expect(await leasing).toHaveLength(1);
  });

  test('and does not know the number of partitions: its refusal is the result in the end', async () => {
    await using a = await TestNode.start();
    a.refusalOf = () => denial(1, a, 1);
    await using client = await connect({ endpoints: a.endpoint, retry: { maxAttempts: 4 } });
    await expect(client.queue(second).enqueue(1)).rejects.toMatchObject({ reason: 'NOT_HOLDER', maybeApplied: false });
  });
});

describe('with direct routing', () => {
  test('calls of a group go straight to its holder', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    for (const queue of [first, second]) {
      await client.queue(queue).enqueue(1);
      expect(await client.queue(queue).lease()).toHaveLength(1);
      expect((await client.queue(queue).stats()).leased).toBe(1);
    }
    expect(await tasksIn(first, [proxy, a, b])).toEqual([0, 1, 0]);
    expect(await tasksIn(second, [proxy, a, b])).toEqual([0, 0, 1]);
    expect(proxy.streams).toBe(0);
    expect([a.routed > 0, b.routed > 0]).toEqual([true, true]);
  });

  test('calls about groups of several holders, or about none, go to the endpoints', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    expect(await client.lease({ queues: [first, second] })).toEqual([]);
    expect([proxy, a, b].map(({ streams }) => streams)).toEqual([1, 0, 0]);
    await client.stats();
    await client.cluster.members();
    expect(a.unaryCalls).toEqual([]);
  });

  test('calls go to the endpoints while the holder is lost, and the table is read again', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    await client.queue(first).enqueue(1);
    const looks = proxy.unaryCalls.length;
    tell([proxy, b], [b.endpoint, b.endpoint], 2);
    a.kill();
    await client.queue(first).enqueue(2);
    await vi.waitUntil(() => proxy.unaryCalls.slice(looks).includes('listPartitions'), patience);
    await vi.waitUntil(async () => {
      await client.queue(first).enqueue(3);
      return (await b.pids(first)).length > 0;
    }, patience);
  });

  test('calls go to the endpoints when the holder cannot be reached at all', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, b } = servers;
    tell([proxy, b], [await unusedEndpoint(), b.endpoint]);
    await using client = await direct(proxy, [b]);
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [proxy])).toEqual([1]);
  });

  test('holders continue to serve when all endpoints are lost, and report other holders', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    proxy.kill();
    await client.queue(first).enqueue(1);
    tell([a, b], [b.endpoint, b.endpoint], 2);
    a.refusalOf = (queue) => (queue === first ? denial(0) : undefined);
    await client.queue(first).enqueue(2);
    expect(await tasksIn(first, [a, b])).toEqual([1, 1]);
    expect([...a.unaryCalls, ...b.unaryCalls]).toContain('listPartitions');
  });

  test('a call follows a group that has moved, and the next call goes straight to the holder', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    let denials = 0;
    a.refusalOf = () => denial(0, b, ++denials + 1);
    await client.queue(first).enqueue(1);
    await client.queue(first).enqueue(2);
    expect(await tasksIn(first, [proxy, a, b])).toEqual([0, 0, 2]);
    expect(denials).toBe(1);
  });

  test('a holder that twice refuses a group without naming a newer holder gets no calls of it for a while', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    let denials = 0;
    a.refusalOf = () => {
      denials++;
      return denial(0, b, 1);
    };
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [proxy, a, b])).toEqual([1, 0, 0]);
    expect(denials).toBe(2);
  });

  test('calls of a starting holder go to the endpoints, which may wait for it', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    a.refusal = makeError('not yet', { reason: 'STARTING', retryDelayMs: 60_000 });
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [proxy, a])).toEqual([1, 0]);
  });

  test('a moving group does not affect the other groups of its node', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    await using client = await direct(proxy, [a, b]);
    let moving = true;
    a.refusalOf = (queue) => {
      if (!moving || queue !== first) return undefined;
      moving = false;
      return makeError('moving', { reason: 'PARTITION_MOVING', retryDelayMs: 20 });
    };
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [proxy, a])).toEqual([0, 1]);
  });

  test('the table is read again every half minute', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    const timing = new ManualTiming();
    const up: string[] = [];
    const onReconnected = ({ endpoint }: ReconnectEvent): void => void up.push(endpoint);
    const options = { endpoints: proxy.endpoint, routing: 'direct', onReconnected } as const;
    await using _client = clientOver(new GrpcTransport(options, { timing, random: () => 0.5 }));
    await timing.advance(0);
    const looks = (): number => proxy.unaryCalls.filter((name) => name === 'listPartitions').length;
    // The table was taken in, so the next look is planned.
    await vi.waitUntil(() => up.includes(a.endpoint) && up.includes(b.endpoint), patience);
    expect(looks()).toBe(1);
    await timing.advance(29_000);
    expect(looks()).toBe(1);
    await timing.advance(1_000);
    await vi.waitUntil(() => looks() === 2, patience);
    expect([a, b].map(({ unaryCalls }) => unaryCalls)).toEqual([[], []]);
  });

  test('a node without a cluster serves everything itself', async () => {
    await using alone = await TestNode.start();
    await using client = await connect({ endpoints: alone.endpoint, routing: 'direct' });
    await vi.waitUntil(() => alone.unaryCalls.includes('listMembers'), patience);
    await client.queue(first).enqueue(1);
    expect(await tasksIn(first, [alone])).toEqual([1]);
  });

  test('is switched on by an option', async () => {
    const wrong = { endpoints: 'a:1', routing: 'fastest' as 'any' };
    await expect(connect(wrong)).rejects.toBeInstanceOf(TypeError);
  });
});

describe('a token', () => {
  /** The address of another machine, as far as its text says. Here it leads to this machine. */
  const elsewhere = ({ port }: TestNode) => ({ endpoint: `0.0.0.0:${port}` });
  const token = 'tm_secret';

  /** Makes a call of each kind: on the stream, unary, and with a streamed answer. */
  async function callAll(client: TaskMasterClient): Promise<void> {
    await client.queue(second).enqueue(1);
    await client.queue(second).peek();
    for await (const _part of client.cluster.backupPartition(1));
  }

  test('does not follow in plain text to a holder that a node names', async () => {
    await using servers = await proxyAndNodes();
    const { a, b } = servers;
    let denials = 0;
    a.refusalOf = (queue) => (queue === second && denials++ < 2 ? denial(1, elsewhere(b)) : undefined);
    await using client = await connect({ endpoints: a.endpoint, token, retry: { backoff: { initial: 1, max: 1 } } });
    await callAll(client);
    expect(denials).toBeGreaterThanOrEqual(2);
    expect(a.tokens).toContain(token);
    expect(b.tokens).toEqual([]);
    expect(await tasksIn(second, [a, b])).toEqual([1, 0]);
  });

  test('does not follow in plain text to a holder in the list of members', async () => {
    await using servers = await proxyAndNodes();
    const { proxy, a, b } = servers;
    tell([proxy], [a.endpoint, elsewhere(b).endpoint]);
    const up: string[] = [];
    const onReconnected = ({ endpoint }: ReconnectEvent): void => void up.push(endpoint);
    await using client = await connect({ endpoints: proxy.endpoint, routing: 'direct', token, onReconnected });
    await vi.waitUntil(() => up.includes(a.endpoint), patience);
    await callAll(client);
    expect(b.tokens).toEqual([]);
    expect(await tasksIn(second, [proxy, a, b])).toEqual([1, 0, 0]);
  });

  test('follows in plain text if that is wanted', async () => {
    await using servers = await proxyAndNodes();
    const { a, b } = servers;
    a.refusalOf = (queue) => (queue === second ? denial(1, elsewhere(b)) : undefined);
    await using client = await connect({ endpoints: a.endpoint, token, insecure: true });
    await callAll(client);
    expect(b.tokens).toContain(token);
  });

  test('goes nowhere in plain text because of gRPC credentials that do not encrypt', async () => {
    const options = { endpoints: '0.0.0.0:1', token, credentials: credentials.createInsecure() };
    expect(() => new GrpcTransport(options)).toThrow(/plain text/);
  });
});
