import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join as joinPath } from 'node:path';
import { connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { startProcess } from '../support/child-process.ts';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { TestCluster } from '../support/start-cluster.ts';
import { runNode, startNode } from '../support/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Free when this is called: nodes that are started at once have to know each other's. */
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

const MODEST = ['--store-reserve-bytes=1MiB', '--engine-partitions=8', '--gossip-port=0'];

describe('a node that takes its place in a cluster', { timeout: 60_000 }, () => {
  test('goes on asking while no member answers, says so, and is ready once one does', async () => {
    await using cluster = await TestCluster.start({ nodes: 1 });
    const { endpoint } = cluster.node('a');
    await cluster.node('a').kill();
    await using dir = await temporaryDirectory();
    const httpPort = 20_000 + (process.pid % 20_000);
    const args = [`--data-dir=${dir.path}`, '--grpc-port=0', `--http-port=${httpPort}`, ...MODEST];
    await using joining = await startProcess(process.execPath, [
      ...[nodeCli, '--json', '--name=late', `--join=${endpoint}`],
      ...args,
    ]);
    await eventually(async () => {
      const response = await fetch(`http://127.0.0.1:${httpPort}/readyz`);
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ state: 'joining', reason: expect.stringContaining(endpoint) });
    });
    expect(joining.stderr).toContain('no member of the cluster answers');
    await cluster.start('a');
    for await (const line of joining.lines()) {
      expect(JSON.parse(line)).toMatchObject({ ready: true, name: 'late' });
      break;
    }
    expect((await fetch(`http://127.0.0.1:${httpPort}/readyz`)).status).toBe(200);
  });

  test('says to callers what it waits for while it joins', async () => {
    await using dir = await temporaryDirectory();
    const [grpcPort = 0, nobody = 0] = await freePorts(2);
    await using joining = await startProcess(process.execPath, [
      ...[nodeCli, '--json', '--name=x', `--join=127.0.0.1:${nobody}`, `--data-dir=${dir.path}`],
      ...[`--grpc-port=${grpcPort}`, '--http-port=0', ...MODEST],
    ]);
    await eventually(() => expect(joining.stderr).toContain('no member of the cluster answers'));
    await using client = await connect({ endpoints: `127.0.0.1:${grpcPort}`, timeout: 1_000 });
    const waits = { reason: 'STARTING', message: expect.stringContaining(`127.0.0.1:${nobody}`) };
    await expect(client.queue('q').enqueue('x')).rejects.toMatchObject(waits);
    await expect(client.cluster.members()).rejects.toMatchObject(waits);
    await joining.kill('SIGTERM');
  });

  test('with the same command line as all others: one cluster, whoever is started again', {
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
    // Nobody is there to be asked.
    await Promise.all([again, ...others].map((node) => node.kill()));
    await startAll();
    expect(await eventually(assertOne)).toBe(before);
  });

  test('ends at once when it is told to while it asks', async () => {
    await using dir = await temporaryDirectory();
    await using joining = await startProcess(process.execPath, [
      ...[nodeCli, '--json', '--name=x', '--join=does-not-resolve.invalid:7400', `--data-dir=${dir.path}`],
      ...['--grpc-port=0', '--http-port=0', ...MODEST],
    ]);
    await eventually(() => expect(joining.stderr).toContain('no member of the cluster answers'));
    const { code } = await joining.kill('SIGTERM');
    expect(code).toBe(0);
  });

  test('is refused under a name that another member has', async () => {
    await using cluster = await TestCluster.start({ nodes: 1 });
    await using dir = await temporaryDirectory();
    const flags = ['--name=a', `--join=${cluster.node('a').endpoint}`, ...MODEST];
    const { code, stderr } = await runNode({ dir: dir.path, flags });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/taskmaster-node: .*refuses: another member, at .*, has the name a .*--name\n$/),
    });
  });

  test('is refused without a key of the cluster, and taken in with one', async () => {
    await using dir = await temporaryDirectory();
    const keyFile = joinPath(dir.path, 'keys');
    await writeFile(keyFile, '# the present key\nseventeen letters\n');
    await using cluster = await TestCluster.start({ nodes: 1, flags: [`--cluster-key-file=${keyFile}`] });
    const flags = ['--name=b', `--join=${cluster.node('a').endpoint}`, ...MODEST];
    const { code, stderr } = await runNode({ dir: joinPath(dir.path, 'stranger'), flags });
    expect(code).toBe(1);
    expect(stderr).toContain('not sealed with a key of this cluster');
    await cluster.add('b');
    await using client = await cluster.connect();
    await eventually(async () => expect((await client.cluster.members()).members).toHaveLength(2));
  });

  test("does not start with another member's directory, or with the queues of a node that stood alone", async () => {
    await using cluster = await TestCluster.start({ nodes: 1 });
    const { endpoint } = cluster.node('a');
    await cluster.node('a').stop();
    const other = await runNode({ dir: cluster.dirOf('a'), flags: ['--name=b', ...MODEST] });
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('is that of member a, not of b') });
    await cluster.start('a');

    await using dir = await temporaryDirectory();
    {
      await using alone = await startNode({ dir: dir.path, flags: MODEST });
      await using client = await connect(alone.endpoint);
      await client.queue('shop#mail').enqueue('x');
      await alone.stop();
    }
    const joining = await runNode({ dir: dir.path, flags: ['--name=b', `--join=${endpoint}`, ...MODEST] });
    expect(joining).toMatchObject({ code: 1, stderr: expect.stringContaining('a node that stood alone') });
  });

  test('begins a cluster with what it had while it stood alone', async () => {
    await using dir = await temporaryDirectory();
    {
      await using alone = await startNode({ dir: dir.path, flags: MODEST });
      await using client = await connect(alone.endpoint);
      await client.queue<string>('shop#mail').enqueue('x');
      await alone.stop();
    }
    await using node = await startNode({ dir: dir.path, flags: ['--name=a', '--bootstrap', ...MODEST] });
    await using client = await connect(node.endpoint);
    expect((await client.queue<string>('shop#mail').lease()).map(({ data }) => data)).toEqual(['x']);
  });

  test('says when somebody of another cluster is where a member was, and nothing is mixed', async () => {
    await using one = await TestCluster.start({ nodes: 2 });
    await using two = await TestCluster.start({ nodes: 1 });
    const { gossipPort, grpcPort } = one.node('a');
    await Promise.all([one.node('a').stop(), one.node('b').stop(), two.node('a').stop()]);
    await using stranger = await startNode({
      ...{ dir: two.dirOf('a'), grpcPort, flags: [`--gossip-port=${gossipPort}`, '--store-reserve-bytes=1MiB'] },
    });
    const b = await one.start('b');
    await eventually(() => expect(b.process.stderr).toContain('WRONG_CLUSTER'));
    await using client = await connect(stranger.endpoint);
    expect((await client.cluster.members()).members.map(({ name }) => name)).toEqual(['a']);
  });

  describe('is no member that others wait for when it cannot start:', () => {
    test.each([
      [
        'gossip has no port',
        ({ gossipPort }: { gossipPort: number }) => [`--gossip-port=${gossipPort}`],
        /gossip cannot listen on 127\.0\.0\.1:\d+ \(UDP\): the port is in use.*--gossip-port/,
      ],
      ['gRPC has no port', ({ grpcPort }: { grpcPort: number }) => [`--grpc-port=${grpcPort}`], /in use.*--grpc-port/],
      [
        'the name it is to be known by means nothing',
        () => ['--cluster-advertise-host=does-not-resolve.invalid'],
        /"does-not-resolve\.invalid" does not resolve.*--cluster-advertise-host/,
      ],
      ['it has too many partitions', () => [], /made with 8 partitions, the cluster has 16/],
    ])('%s', async (what, wrong, says) => {
      await using cluster = await TestCluster.start({ nodes: 1, flags: ['--engine-partitions=16'] });
      await using dir = await temporaryDirectory();
      if (what === 'it has too many partitions') await (await startNode({ dir: dir.path, flags: MODEST })).stop();
      const a = cluster.node('a');
      const flags = ['--name=b', `--join=${a.endpoint}`, ...MODEST, ...wrong(a)];
      const { code, stderr } = await runNode({ dir: dir.path, flags });
      expect(code).toBe(1);
      expect(stderr).toMatch(says);
      await using client = await cluster.connect();
      expect((await client.cluster.members()).members.map(({ name }) => name)).toEqual(['a']);
    });
  });

  test('is found again when it comes back under another address', async () => {
    await using cluster = await TestCluster.start({ nodes: 2 });
    await using client = await connect(cluster.node('a').endpoint);
    await eventually(async () => {
      const { partitions } = await client.cluster.partitions();
      expect(new Set(partitions.map(({ holder }) => holder?.name))).toEqual(new Set(['a', 'b']));
    });
    for (let number = 0; number < 50; number++) await client.queue(`g${number}#q`).enqueue(number);
    const before = cluster.node('b');
    await before.kill();
    await using moved = await startNode({ dir: before.dir, flags: ['--gossip-port=0', '--store-reserve-bytes=1MiB'] });
    expect(moved.grpcPort).not.toBe(before.grpcPort);
    await eventually(async () => {
      const { totals, unreachable } = await client.stats();
      expect({ unreachable, available: totals.available }).toEqual({ unreachable: [], available: 50 });
    });
  });

  test('all of them are found again, each at another address, by the address of one', async () => {
    await using cluster = await TestCluster.start({ nodes: 3 });
    await using before = await cluster.connect();
    for (let number = 0; number < 30; number++) await before.queue(`g${number}#q`).enqueue(number);
    const dirs = ['a', 'b', 'c'].map((name) => cluster.node(name).dir);
    await Promise.all(['a', 'b', 'c'].map((name) => cluster.node(name).kill()));
    const flags = ['--gossip-port=0', '--store-reserve-bytes=1MiB'];
    const [dirA = '', ...others] = dirs;
    await using a = await startNode({ dir: dirA, flags });
    const moved = others.map((dir) => startNode({ dir, flags: [...flags, `--join=${a.endpoint}`] }));
    await using _moved = {
      async [Symbol.asyncDispose]() {
        for (const node of await Promise.all(moved)) await node[Symbol.asyncDispose]();
      },
    };
    await Promise.all(moved);
    await using client = await connect(a.endpoint);
    await eventually(async () => {
      const { totals, unreachable } = await client.stats();
      expect({ unreachable, available: totals.available }).toEqual({ unreachable: [], available: 30 });
    });
    const { members } = await client.cluster.members();
    expect(members.map(({ alive }) => alive)).toEqual([true, true, true]);
  });

  test('of two whose other is gone waits for it, says so, and serves once that one is given up', async () => {
    await using cluster = await TestCluster.start({ nodes: 2 });
    await Promise.all([cluster.node('a').kill(), cluster.node('b').kill()]);
    const a = await cluster.start('a');
    const readyz = async () => (await fetch(`http://127.0.0.1:${a.httpPort}/readyz`)).json();
    expect(await readyz()).toMatchObject({ state: 'waiting', reason: expect.stringContaining('answer: b') });
    await using client = await connect({ endpoints: a.endpoint, retry: { maxAttempts: 1 } });
    await expect(client.queue('shop#mail').enqueue('x')).rejects.toMatchObject({ reason: 'STARTING' });
    await client.cluster.remove('b', { acceptLoss: true });
    await eventually(async () => expect(await readyz()).toMatchObject({ status: 'ready' }));
    await eventually(() => client.queue('shop#mail').enqueue('x'));
  });

  test('comes back as a new member after it has left', async () => {
    await using cluster = await TestCluster.start({ nodes: 2 });
    await using client = await connect(cluster.node('a').endpoint);
    const { endpoint } = cluster.node('a');
    const c = await cluster.start('c', ['--name=c', `--join=${endpoint}`, '--drain-on-stop']);
    expect((await c.stop()).code).toBe(0);
    await eventually(async () => {
      const { members } = await client.cluster.members();
      expect(members.map((member) => member.role === 'node' && [member.name, member.state])).toContainEqual([
        'c',
        'left',
      ]);
    });
    const alone = await runNode({ dir: cluster.dirOf('c'), flags: MODEST });
    expect(alone).toMatchObject({ code: 1, stderr: expect.stringContaining('--join brings it back') });
    await cluster.start('c', [`--join=${endpoint}`]);
    await eventually(async () => {
      const { members } = await client.cluster.members();
      const held = members.map((member) => member.role === 'node' && member.name === 'c' && member.partitionsHeld > 0);
      expect(held).toContain(true);
    });
  });
});
