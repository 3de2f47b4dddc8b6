import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { MemberState } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clusterOf, fill, GROUPS } from '../testing/cluster-fixtures.ts';
import type { SimCluster } from '../testing/sim-cluster.ts';

async function expectEverywhere(cluster: SimCluster, pids: readonly string[]): Promise<void> {
  for (let id = 0; id < cluster.partitions; id++) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
  for (const group of GROUPS) {
    const tasks = await cluster.run(
      cluster.holderOf(group)?.h.lease(`${group}#q`, { max: 9, for: 1 }) ?? Promise.reject(),
    );
    expect(pidsOf(tasks)).toEqual(pids);
  }
  await cluster.pass(100);
}

describe('a cluster', () => {
  test('begins with one node that holds everything', async () => {
    const cluster = await clusterOf(['a']);
    expect(cluster.shares()).toEqual({ a: 32 });
  });

  test('shares its partitions with every node that joins, and loses nothing', async () => {
    const cluster = await clusterOf(['a']);
    await fill(cluster, '1');
    for (const name of ['b', 'c']) {
      await cluster.run(cluster.add(name).start());
      await cluster.pass(30_000);
      await expectEverywhere(cluster, ['1']);
    }
    const shares = Object.values(cluster.shares());
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(32);
    for (const share of shares) expect(share).toBeGreaterThan(3);
    const [first] = cluster.up;
    for (const { agent } of cluster.up) {
      expect(agent.desired).toEqual(first?.agent.desired);
      expect([...agent.view.entries()]).toEqual([...(first?.agent.view.entries() ?? [])]);
    }
  });

  test('moves nothing when a node crashes; the node returns with its partitions', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const before = cluster.shares();
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(60_000);
    expect(cluster.shares()).toEqual({ a: before.a, c: before.c });
    await cluster.run(cluster.node('b').start());
    await cluster.pass(10_000);
    expect(cluster.shares()).toEqual(before);
    await expectEverywhere(cluster, ['1']);
  });

  test('takes over everything from a node that is drained', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    await cluster.run(cluster.node('b').agent.drain());
    expect(cluster.shares()).toMatchObject({ b: 0 });
    await cluster.pass(5_000);
    await cluster.run(cluster.node('b').lose());
    for (const { agent } of cluster.up) expect(agent.members.get('id-b')?.state).toBe('left');
    await expectEverywhere(cluster, ['1']);
  });

  test('has lost nothing after a power loss of all nodes', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const before = cluster.shares();
    for (const node of [...cluster.nodes.values()]) await cluster.run(node.lose());
    for (const node of cluster.nodes.values()) await cluster.run(node.start());
    await cluster.pass(10_000);
    expect(cluster.shares()).toEqual(before);
    await expectEverywhere(cluster, ['1']);
  });

  test('recovers after the network was split while a node joined', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    for (const pair of ['a>b', 'b>a', 'b>c', 'c>b']) cluster.cut.add(pair);
    await cluster.pass(10_000);
    await cluster.run(cluster.add('c').start());
    await cluster.pass(30_000);
    for (let id = 0; id < cluster.partitions; id++) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
    cluster.cut.clear();
    await cluster.pass(30_000);
    await expectEverywhere(cluster, ['1']);
    const { agent } = cluster.node('a');
    for (const [id, { nodeId }] of agent.view.entries()) expect(nodeId).toBe(agent.desired[id]);
  });

  test('refuses a second node with the same name, and a node of another cluster', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const { handlers } = cluster.node('a').agent;
    const member = {
      nodeId: 'id-x',
      name: 'b',
      state: MemberState.MEMBER_STATE_JOINING,
      version: 1,
      rpcAddress: 'x:1',
      gossipAddress: 'x:2',
      removedBy: '',
    };
    await expect(handlers.join({ clusterId: '', member, release: undefined })).rejects.toMatchObject({
      reason: 'NAME_IN_USE',
    });
    const stranger = { ...member, name: 'x' };
    await expect(handlers.join({ clusterId: 'other', member: stranger, release: undefined })).rejects.toMatchObject({
      reason: 'WRONG_CLUSTER',
    });
    expect([...cluster.node('a').agent.members.keys()].sort()).toEqual(['id-a', 'id-b']);
  });

  test('admits no node, and answers no proxy, that speaks a newer protocol only', async () => {
    const cluster = await clusterOf(['a']);
    const { handlers } = cluster.node('a').agent;
    const member = {
      nodeId: 'id-x',
      name: 'x',
      state: MemberState.MEMBER_STATE_JOINING,
      version: 1,
      removedBy: '',
      rpcAddress: 'x:1',
      gossipAddress: 'x:2',
    };
    const newer = { version: '9.0.0', protocolMin: 7, protocolMax: 8 };
    const refused = { reason: 'INCOMPATIBLE_RELEASE', message: expect.stringContaining('release 9.0.0') };
    await expect(handlers.join({ clusterId: '', member, release: newer })).rejects.toMatchObject(refused);
    const hello = { clusterId: '', from: '', knowledge: undefined };
    await expect(handlers.exchange({ ...hello, release: newer })).rejects.toMatchObject(refused);
    expect([...cluster.node('a').agent.members.keys()]).toEqual(['id-a']);
    const both = { ...newer, protocolMin: 1 };
    expect(await cluster.run(handlers.exchange({ ...hello, release: both }))).toMatchObject({
      release: { protocolMin: 1 },
    });
  });

  test('has no member that is active only in its own record', async () => {
    const cluster = await clusterOf(['a']);
    const [a, b] = [cluster.node('a'), cluster.add('b')];
    cluster.network.onArrival = ({ to, what, way }) => {
      if (to !== 'b' || what !== 'join' || way !== 'answer') return;
      cluster.cut.add('a>b').add('b>a');
      cluster.network.onArrival = undefined;
    };
    const started = b.start();
    await cluster.pass(20_000);
    expect(b.agent.self?.state).toBe('joining');
    cluster.cut.clear();
    while (b.agent.self?.state === 'joining') await cluster.pass(1);
    expect(a.agent.members.get('id-b')?.state).toBe('active');
    await cluster.run(started);
  });

  test('admits no node through a member that has left', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await cluster.run(cluster.node('b').agent.drain());
    const member = {
      nodeId: 'id-x',
      name: 'x',
      state: MemberState.MEMBER_STATE_JOINING,
      version: 1,
      removedBy: '',
      rpcAddress: 'x:1',
      gossipAddress: 'x:2',
    };
    const joined = cluster.run(cluster.node('b').agent.handlers.join({ clusterId: '', member, release: undefined }));
    await expect(joined).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await cluster.run(cluster.add('c').start());
    expect(cluster.node('c').agent.self?.state).toBe('active');
  });

  test('admits no node through a node that is still joining', async () => {
    const cluster = await clusterOf(['a']);
    const b = cluster.add('b');
    const started = b.start();
    while (!b.isUp) await cluster.pass(1);
    const member = {
      nodeId: 'id-x',
      name: 'x',
      state: MemberState.MEMBER_STATE_JOINING,
      version: 1,
      removedBy: '',
      rpcAddress: 'x:1',
      gossipAddress: 'x:2',
    };
    expect(b.agent.self?.state).toBe('joining');
    const joined = b.agent.handlers.join({ clusterId: '', member, release: undefined });
    await expect(cluster.run(joined)).rejects.toMatchObject({ reason: 'STARTING' });
    await cluster.run(started);
    expect(b.agent.self?.state).toBe('active');
  });

  test('finds a member that restarts at another address, even if gossip does not reach it', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const version = b.agent.self?.version ?? 0;
    await cluster.run(b.agent.updateSelf({ rpcAddress: 'elsewhere:1', gossipAddress: 'elsewhere:2' }));
    await cluster.run(b.agent.updateSelf({ rpcAddress: 'elsewhere:1' }));
    await cluster.pass(10_000);
    for (const name of ['a', 'c']) {
      expect(cluster.node(name).agent.members.get('id-b')).toMatchObject({
        rpcAddress: 'elsewhere:1',
        gossipAddress: 'elsewhere:2',
        version: version + 1,
      });
    }
    // While it is alive, its gossip decides the address.
    expect(cluster.node('a').agent.addressOf('id-b')).toBe('b:1');
    await cluster.run(b.lose());
    await cluster.pass(10_000);
    expect(cluster.node('a').agent.addressOf('id-b')).toBe('elsewhere:1');
  });

  test('passes on the counts of partitions, but only those of the present holder', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    await cluster.pass(20_000);
    for (const { agent } of cluster.up) {
      const counts = [...agent.view.entries()].map(([id]) => agent.view.counts(id)?.tasks ?? 0);
      expect(counts.reduce((sum, tasks) => sum + tasks, 0)).toBe(GROUPS.length);
    }
  });

  test('does not announce changed counts as news', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await cluster.pass(20_000);
    const before = cluster.up.map(({ membership }) => membership.self.stateVersion);
    await fill(cluster, '1');
    await cluster.pass(20_000);
    expect(cluster.up.map(({ membership }) => membership.self.stateVersion)).toEqual(before);
  });
});
