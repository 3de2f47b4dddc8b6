import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join as joinPath } from 'node:path';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Free ports, for nodes that are started together and must know each other's ports. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  const ports = await Promise.all(
    servers.map(async (server) => {
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    }),
  );
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

const MODEST = ['--engine-partitions=8', '--gossip-port=0'];

describe('a node that starts in a cluster', { timeout: 120_000 }, () => {
  test('asks until a member answers, reports what it waits for, and is then ready', async () => {
    await using cluster = await TestCluster.start({ nodes: 1 });
    const { endpoint } = cluster.node('a');
    await cluster.node('a').kill();
    await using dir = await temporaryDirectory();
    const [grpcPort = 0, httpPort = 0] = await freePorts(2);
    await using joining = await startProcess(process.execPath, [
      nodeCli,
      '--json',
      '--name=late',
      `--join=${endpoint}`,
      `--data-dir=${dir.path}`,
      `--grpc-port=${grpcPort}`,
      `--http-port=${httpPort}`,
      ...MODEST,
    ]);
    await eventually(async () => {
      const response = await fetch(`http://127.0.0.1:${httpPort}/readyz`);
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ state: 'joining', reason: expect.stringContaining(endpoint) });
    });
    expect(joining.stderr).toContain('no member of the cluster answers');
    {
      await using client = await connect({ endpoints: `127.0.0.1:${grpcPort}`, timeout: 1_000 });
      const waits = { reason: 'STARTING', message: expect.stringContaining(endpoint) };
      await expect(client.queue('q').enqueue('x')).rejects.toMatchObject(waits);
      await expect(client.cluster.members()).rejects.toMatchObject(waits);
    }
    await cluster.start('a');
    for await (const line of joining.lines()) {
      expect(JSON.parse(line)).toMatchObject({ ready: true, name: 'late' });
      break;
    }
    expect((await fetch(`http://127.0.0.1:${httpPort}/readyz`)).status).toBe(200);
  });

  test('with the same command line as all others belongs to one cluster, after any restarts', {
    timeout: 180_000,
  }, async () => {
    await using dir = await temporaryDirectory();
    const ports = await freePorts(3);
    const join = ports.map((port) => `127.0.0.1:${port}`).join(',');
    await using stack = new AsyncDisposableStack();
    const start = async (index: number) =>
      stack.use(
        await startNode({
          dir: joinPath(dir.path, String(index)),
          grpcPort: ports[index] ?? 0,
          flags: [...MODEST, `--name=node-${index}`, '--bootstrap', `--join=${join}`],
        }),
      );
    const startAll = () => Promise.all(ports.map((_, index) => start(index)));
    const [first, ...others] = await startAll();
    const assertOne = async () => {
      await using client = await connect({ endpoints: join.split(',') });
      const listed = await Promise.all(
        join.split(',').map(async (endpoint) => {
          await using node = await connect(endpoint);
          const { clusterId, members } = await node.cluster.members();
          return { clusterId, names: members.map(({ name }) => name) };
        }),
      );
      const [one] = listed;
      expect(one?.names).toEqual(['node-0', 'node-1', 'node-2']);
      expect(listed).toEqual([one, one, one]);
      const { partitions } = await client.cluster.partitions();
      expect(partitions.map(({ holder, wanted }) => holder?.name === wanted)).not.toContain(false);
      return one?.clusterId;
    };
    const before = await eventually(assertOne);
    await first?.kill();
    const again = await start(0);
    expect(await eventually(assertOne)).toBe(before);
    // No member is up when the nodes start.
    await Promise.all([again, ...others].map((node) => node.kill()));
    await startAll();
    expect(await eventually(assertOne)).toBe(before);
  });

  test('ends at once when it is stopped while it asks', async () => {
    await using dir = await temporaryDirectory();
    await using joining = await startProcess(process.execPath, [
      nodeCli,
      '--json',
      '--name=x',
      '--join=does-not-resolve.invalid:7400',
      `--data-dir=${dir.path}`,
      '--grpc-port=0',
      '--http-port=0',
      '--insecure',
      ...MODEST,
    ]);
    await eventually(() => expect(joining.stderr).toContain('no member of the cluster answers'));
    const { code } = await joining.kill('SIGTERM');
    expect(code).toBe(0);
  });

  test('reports a node of another cluster at a former address of a member, and does not mix the clusters', async () => {
    await using one = await TestCluster.start({ nodes: 2 });
    await using two = await TestCluster.start({ nodes: 1 });
    const { gossipPort, grpcPort } = one.node('a');
    await Promise.all([one.node('a').stop(), one.node('b').stop(), two.node('a').stop()]);
    await using stranger = await startNode({
      dir: two.dirOf('a'),
      grpcPort,
      flags: [`--gossip-port=${gossipPort}`],
    });
    const b = await one.start('b');
    await eventually(() => expect(b.process.stderr).toContain('WRONG_CLUSTER'));
    await using client = await connect(stranger.endpoint);
    expect((await client.cluster.members()).members.map(({ name }) => name)).toEqual(['a']);
  });

  test('of two members waits for the other one, which is gone, says so, and serves after that one is removed', async () => {
    await using cluster = await TestCluster.start({ nodes: 2 });
    await Promise.all([cluster.node('a').kill(), cluster.node('b').kill()]);
    const a = await cluster.start('a');
    const readyz = async () => (await fetch(`http://127.0.0.1:${a.httpPort}/readyz`)).json();
    expect(await readyz()).toMatchObject({ state: 'waiting', reason: expect.stringContaining('answer: b') });
    await using client = await connect({ endpoints: a.endpoint, retry: { maxAttempts: 1 } });
    await expect(client.queue('shop#mail').enqueue('x')).rejects.toMatchObject({ reason: 'STARTING' });
    // A node that has just restarted first looks for members that joined while it was down.
    await eventually(() => client.cluster.remove('b', { acceptLoss: true }), { withinMs: 20_000, everyMs: 200 });
    await eventually(async () => expect(await readyz()).toMatchObject({ status: 'ready' }));
    await eventually(() => client.queue('shop#mail').enqueue('x'));
  });

  test('is refused by a cluster while it has the queues of a stand-alone node, and begins a cluster with them', async () => {
    await using dir = await temporaryDirectory();
    {
      await using alone = await startNode({ dir: dir.path, flags: MODEST });
      await using client = await connect(alone.endpoint);
      await client.queue<string>('shop#mail').enqueue('x');
      await alone.stop();
    }
    const joining = await runNode({ dir: dir.path, flags: ['--name=a', '--join=127.0.0.1:1', ...MODEST] });
    expect(joining).toMatchObject({ code: 1, stderr: expect.stringContaining('a stand-alone node') });
    await using node = await startNode({ dir: dir.path, flags: ['--name=a', '--bootstrap', ...MODEST] });
    await using client = await connect(node.endpoint);
    expect((await client.queue<string>('shop#mail').lease()).map(({ data }) => data)).toEqual(['x']);
  });

  test('is found after a restart at another address, and after a restart of all nodes by the address of one', async () => {
    await using cluster = await TestCluster.start({ nodes: 3 });
    await using client = await connect(cluster.node('a').endpoint);
    await eventually(async () => {
      const { partitions } = await client.cluster.partitions();
      expect(new Set(partitions.map(({ holder }) => holder?.name))).toEqual(new Set(['a', 'b', 'c']));
    });
    for (let number = 0; number < 50; number++) await client.queue(`g${number}#q`).enqueue(number);
    const assertAllFound = async (asked: TaskMasterClient): Promise<void> => {
      const { totals, unreachable } = await asked.stats();
      expect({ unreachable, available: totals.available }).toEqual({ unreachable: [], available: 50 });
    };
    const flags = ['--gossip-port=0'];
    const before = cluster.node('b');
    await before.kill();
    {
      await using moved = await startNode({ dir: before.dir, flags });
      expect(moved.grpcPort).not.toBe(before.grpcPort);
      await eventually(() => assertAllFound(client));
    }
    await Promise.all(['a', 'c'].map((name) => cluster.node(name).kill()));

    await using stack = new AsyncDisposableStack();
    const a = stack.use(await startNode({ dir: cluster.dirOf('a'), flags }));
    const others = ['b', 'c'].map(async (name) =>
      stack.use(await startNode({ dir: cluster.dirOf(name), flags: [...flags, `--join=${a.endpoint}`] })),
    );
    await Promise.all(others);
    await using again = await connect(a.endpoint);
    await eventually(() => assertAllFound(again));
    const { members } = await again.cluster.members();
    expect(members.map(({ alive }) => alive)).toEqual([true, true, true]);
  });
});
