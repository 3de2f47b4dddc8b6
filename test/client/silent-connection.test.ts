import { createServer, connect as dial, type Socket } from 'node:net';
import { type ConnectOptions, connect } from '@taskmaster/client';
import { expect, test, vi } from 'vitest';
import { TestNode } from './support/test-node.ts';

/** Which packets of the connections that are open now are dropped without a word. New connections work. */
type Dropped = 'all' | 'answers';

/** A way to a server that can drop packets of open connections, as a firewall that has forgotten them does. */
async function lossyWay(port: number) {
  const pairs = new Set<readonly [Socket, Socket]>();
  let connections = 0;
  let refuses = false;
  const server = createServer((client) => {
    connections++;
    if (refuses) {
      pairs.add([client, client]);
      return;
    }
    const node = dial(port, '127.0.0.1');
    client.pipe(node);
    node.pipe(client);
    pairs.add([client, node]);
    for (const socket of [client, node]) socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP port has a number');
  return {
    endpoint: `127.0.0.1:${address.port}`,
    connections: () => connections,
    drop(what: Dropped): void {
      for (const [client, node] of pairs) {
        node.unpipe(client);
        // Read and dropped: a socket that is not read would push back.
        node.resume();
        if (what === 'answers') continue;
        client.unpipe(node);
        client.resume();
      }
    },
    /** Ends the connections that are open now, as a node does that restarts. */
    reset(): void {
      for (const [client] of pairs) client.resetAndDestroy();
    },
    /** New connections are accepted and get no answer. */
    swallowNew(): void {
      refuses = true;
    },
    async [Symbol.asyncDispose]() {
      for (const sockets of pairs) for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const patience = { timeout: 20_000, interval: 5 };
/** Longer than a silence takes on a busy machine. */
const options = { timeout: '20s' } as const;

test.concurrent.each<[Dropped, Partial<ConnectOptions>]>([
  ['all', {}],
  ['answers', {}],
  ['all', { useStream: false }],
  ['answers', { useStream: false }],
])(
  'a connection that drops %s without a word delays a call by a part of its time, and doubles nothing: %j',
  async (what, more) => {
    await using server = await TestNode.start();
    await using way = await lossyWay(server.port);
    await using client = await connect({ ...options, ...more, endpoints: way.endpoint });
    const queue = client.queue<number>('g#q');
    await queue.enqueue(1);
    const before = server.updates.length;
    way.drop(what);
    const begun = performance.now();
    await queue.enqueue(2);
    expect(performance.now() - begun).toBeLessThan(7_000);
    expect(await server.pids('g#q')).toHaveLength(2);
    expect(way.connections()).toBe(2);
    // With lost answers the update arrived before, under the same id.
    const ids = server.updates.slice(before).map(({ requestId }) => Buffer.from(requestId).toString('hex'));
    expect(ids).toHaveLength(what === 'answers' ? 2 : 1);
    expect(new Set(ids).size).toBe(1);
    await queue.enqueue(3);
    expect(await queue.peek()).toHaveLength(3);
  },
);

test.concurrent.each<[string, (way: Awaited<ReturnType<typeof lossyWay>>) => void]>([
  ['ends', (way) => way.reset()],
  ['drops all without a word', (way) => way.drop('all')],
  ['drops answers without a word', (way) => way.drop('answers')],
])('a worker that waits for tasks over a connection that %s gets them over the next one', async (_what, lose) => {
  await using server = await TestNode.start();
  await using way = await lossyWay(server.port);
  await using client = await connect({ ...options, endpoints: way.endpoint });
  const queue = client.queue<number>('g#q');
  const handled: number[] = [];
  // The node may give the next task to the request that waits over the lost connection. Then it comes when that lease ends.
  await using worker = client.worker(queue, ({ data }) => void handled.push(data), { leaseDuration: '1s' });
  worker.start();
  await queue.enqueue(1);
  await vi.waitUntil(() => handled.length === 1 && server.waiting > 0, patience);
  const before = way.connections();
  lose(way);
  await queue.enqueue(2);
  await vi.waitUntil(() => handled.includes(2), patience);
  expect(way.connections()).toBeGreaterThan(before);
});

test.concurrent('reads go on over a new connection, too', async () => {
  await using server = await TestNode.start();
  await using way = await lossyWay(server.port);
  await using client = await connect({ ...options, endpoints: way.endpoint });
  await client.queue('g#q').enqueue(1);
  way.drop('all');
  expect(await client.queue('g#q').peek()).toHaveLength(1);
});

test.concurrent('an endpoint that answers no connection is left for another one', async () => {
  await using server = await TestNode.start();
  await using way = await lossyWay(server.port);
  const up = new Set<string>();
  await using client = await connect({
    ...options,
    endpoints: [way.endpoint, server.endpoint],
    onReconnected: ({ endpoint, state }) => void (state === 'connected' ? up.add(endpoint) : up.delete(endpoint)),
  });
  await vi.waitUntil(() => up.size === 2, patience);
  way.drop('all');
  way.swallowNew();
  for (let task = 0; task < 2; task++) await client.queue('g#q').enqueue(task);
  expect(await server.pids('g#q')).toHaveLength(2);
});

test.concurrent('a node that takes long for a call keeps its connection, because it answers others', async () => {
  await using server = await TestNode.start();
  await using way = await lossyWay(server.port);
  const lost: string[] = [];
  const onReconnected = ({ state, endpoint }: { state: string; endpoint: string }): void =>
    void (state === 'lost' && lost.push(endpoint));
  await using client = await connect({ ...options, endpoints: way.endpoint, onReconnected });
  const slow = Promise.withResolvers<void>();
  server.hold = slow.promise;
  const enqueued = client.queue('g#q').enqueue(1);
  const begun = performance.now();
  // Longer than it takes to be suspicious and to ask the connection.
  await vi.waitUntil(() => performance.now() - begun > 3_000, patience);
  slow.resolve();
  await enqueued;
  expect(server.updates).toHaveLength(1);
  expect(lost).toEqual([]);
  expect(way.connections()).toBe(1);
});
