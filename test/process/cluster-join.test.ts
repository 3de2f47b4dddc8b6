import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ClusterMember, connect } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

const MODEST = ['--engine-partitions=8', '--gossip-port=0'];

/** One cluster for all tests. Each test leaves it as it was, except for the last ones. */
describe('a node that joins a cluster with 16 partitions and a key', { timeout: 60_000 }, () => {
  let dir: TemporaryDirectory;
  let keyed: string;
  let cluster: TestCluster;
  beforeAll(async () => {
    dir = await temporaryDirectory();
    const keyFile = join(dir.path, 'keys');
    await writeFile(keyFile, '# the present key\nseventeen letters\n', { mode: 0o600 });
    keyed = `--cluster-key-file=${keyFile}`;
    cluster = await TestCluster.start({ nodes: 1, flags: ['--engine-partitions=16', keyed] });
  }, 60_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await dir[Symbol.asyncDispose]();
  });

  const joining = (name: string): string[] => [`--name=${name}`, `--join=${cluster.node('a').endpoint}`, ...MODEST];

  async function members(): Promise<readonly ClusterMember[]> {
    await using client = await connect(cluster.node('a').endpoint);
    return (await client.cluster.members()).members;
  }

  describe('does not become a member if it cannot start:', () => {
    test.each([
      [
        'gossip has no port',
        ({ gossipPort }: { gossipPort: number }) => [`--gossip-port=${gossipPort}`],
        /gossip cannot listen on 127\.0\.0\.1:\d+ \(UDP\): the port is in use.*--gossip-port/,
      ],
      ['gRPC has no port', ({ grpcPort }: { grpcPort: number }) => [`--grpc-port=${grpcPort}`], /in use.*--grpc-port/],
      [
        'its advertised name does not resolve',
        () => ['--cluster-advertise-host=does-not-resolve.invalid', '--insecure'],
        /"does-not-resolve\.invalid" does not resolve.*--cluster-advertise-host/,
      ],
      ['it has too many partitions', () => [], /created with 8 partitions, the cluster has 16/],
    ])('%s', async (what, wrong, says) => {
      await using own = await temporaryDirectory();
      if (what === 'it has too many partitions') await (await startNode({ dir: own.path, flags: MODEST })).stop();
      const flags = [...joining('b'), keyed, ...wrong(cluster.node('a'))];
      const { code, stderr } = await runNode({ dir: own.path, flags });
      expect(code).toBe(1);
      expect(stderr).toMatch(says);
      expect((await members()).map(({ name }) => name)).toEqual(['a']);
    });
  });

  test('is refused if another member has its name', async () => {
    await using own = await temporaryDirectory();
    const { code, stderr } = await runNode({ dir: own.path, flags: [...joining('a'), keyed] });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/taskmaster-node: .*refuses: another member, at .*, has the name a .*--name\n$/),
    });
  });

  test('is refused without a key of the cluster, and admitted with one', async () => {
    const { code, stderr } = await runNode({ dir: join(dir.path, 'stranger'), flags: joining('b') });
    expect(code).toBe(1);
    expect(stderr).toContain('not sealed with a key of this cluster');
    await cluster.add('b');
    await eventually(async () => expect(await members()).toHaveLength(2));
  });

  test('joins again as a new member after it has left', async () => {
    const join = `--join=${cluster.node('a').endpoint}`;
    const c = await cluster.start('c', ['--name=c', join, '--drain-on-shutdown=always']);
    expect((await c.stop()).code).toBe(0);
    await eventually(async () => {
      const states = (await members()).map((member) => member.role === 'node' && [member.name, member.state]);
      expect(states).toContainEqual(['c', 'left']);
    });
    const alone = await runNode({ dir: cluster.dirOf('c'), flags: [...MODEST, keyed] });
    expect(alone).toMatchObject({ code: 1, stderr: expect.stringContaining('--join brings it back') });
    await cluster.start('c', [join]);
    await eventually(async () => {
      const holds = (member: ClusterMember) => member.role === 'node' && member.partitionsHeld > 0;
      expect((await members()).filter(holds).map(({ name }) => name)).toContain('c');
    });
  });

  test("does not start with another member's directory", async () => {
    await cluster.node('a').stop();
    const other = await runNode({ dir: cluster.dirOf('a'), flags: ['--name=b', keyed, ...MODEST] });
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('is that of member a, not of b') });
  });
});
