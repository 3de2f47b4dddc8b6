import { VirtualClock } from '@taskmaster/engine/testing';
import { MemberRole, MemberState, PartitionState } from '@taskmaster/proto';
import { toWireRecord } from '@taskmaster/server/cluster-view';
import { describe, expect, test } from 'vitest';
import {
  administrationOf,
  clusterOf,
  cutOff,
  DEATH_MS,
  fill,
  groupsOf,
  idsHeldBy,
  lose,
  removeMembers,
} from '../../testing/cluster-fixtures.ts';

describe('the list of members', () => {
  test('shows nodes, members that have left at the end, and proxies', async () => {
    const cluster = await clusterOf(['c', 'a', 'b']);
    await cluster.run(cluster.node('a').agent.drain());
    await lose(cluster, 'a', 'b');
    const proxy = {
      nodeId: 'id-p',
      name: 'p',
      role: 'proxy' as const,
      version: '7',
      stateVersion: 1,
      incarnation: 1,
      rpcAddress: 'p:1',
      httpAddress: 'p:3',
    };
    cluster.gossip.open(proxy, 'p:2', ['c:2'], new VirtualClock({ time: cluster.time }));
    await cluster.pass(DEATH_MS);
    const { clusterId, partitions, members } = await administrationOf(cluster, 'c').listMembers();
    expect({ clusterId, partitions }).toEqual({ clusterId: 'cluster-1', partitions: 32 });
    const held = cluster.node('c').partitions.held().length;
    expect(members).toEqual([
      expect.objectContaining({
        name: 'b',
        nodeId: 'id-b',
        role: MemberRole.MEMBER_ROLE_NODE,
        state: MemberState.MEMBER_STATE_ACTIVE,
        alive: false,
        partitionsHeld: 32 - held,
        rpcAddress: 'b:1',
        gossipAddress: 'b:2',
        removedBy: '',
      }),
      expect.objectContaining({ name: 'c', alive: true, partitionsHeld: held, version: '0', rpcAddress: 'c:1' }),
      expect.objectContaining({
        name: 'a',
        state: MemberState.MEMBER_STATE_LEFT,
        alive: false,
        partitionsHeld: 0,
        partitionsWanted: 0,
      }),
      expect.objectContaining({
        name: 'p',
        role: MemberRole.MEMBER_ROLE_PROXY,
        state: MemberState.MEMBER_STATE_UNSPECIFIED,
        alive: true,
        version: '7',
        httpAddress: 'p:3',
        partitionsHeld: 0,
      }),
    ]);
    expect(members.reduce((sum, { partitionsWanted }) => sum + partitionsWanted, 0)).toBe(32);
  });

  test('names the node through which a member was removed', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    const administration = administrationOf(cluster, 'a');
    await removeMembers(cluster, 'a', 'b');
    const { members } = await administration.listMembers();
    expect(members.find(({ name }) => name === 'b')).toMatchObject({ removedBy: 'a' });
  });
});

describe('the list of partitions', () => {
  test('shows what each holder says about its partitions', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    const { partitions, unreachable } = await cluster.run(administrationOf(cluster, 'a').listPartitions());
    expect(unreachable).toEqual([]);
    expect(partitions.map(({ id }) => id)).toEqual(Array.from({ length: 32 }, (_, id) => id));
    expect(partitions.reduce((sum, { tasks }) => sum + tasks, 0)).toBe(40);
    expect(partitions.reduce((sum, { queues }) => sum + queues, 0)).toBe(40);
    for (const { id, holder, holderNodeId, wanted, state } of partitions) {
      expect([holder]).toEqual(cluster.serving(id as never));
      expect(holderNodeId).toBe(`id-${holder}`);
      expect(wanted).toBe(holder);
      expect(state).toBe(PartitionState.PARTITION_STATE_SERVING);
    }
  });

  test('shows the last known counts for a holder that does not answer', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    const tasks = groupsOf(cluster, b).length;
    await cluster.pass(15_000);
    const held = idsHeldBy(b);
    await cluster.run(b.lose());
    const { partitions, unreachable } = await cluster.run(administrationOf(cluster, 'a').listPartitions());
    expect(unreachable).toEqual(['b']);
    const lost = partitions.filter(({ state }) => state === PartitionState.PARTITION_STATE_UNREACHABLE);
    expect(lost.map(({ id }) => id)).toEqual(held);
    expect(lost.every(({ holder }) => holder === 'b')).toBe(true);
    expect(lost.reduce((sum, partition) => sum + partition.tasks, 0)).toBe(tasks);
  });

  test('shows a partition that moves, and one whose holder is not known', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const held = a.partitions.held().find(({ tasks }) => tasks > 0);
    if (!held) throw new Error('node a holds nothing');
    const seen = async () => (await cluster.run(administrationOf(cluster, 'a').listPartitions())).partitions[held.id];
    cluster.network.onArrival = ({ what, way }) => {
      if (what === 'sendRows' && way === 'request') cutOff(cluster, 'b');
    };
    a.send(held.id, b).catch(() => {});
    await cluster.pass(100);
    expect(await seen()).toMatchObject({ state: PartitionState.PARTITION_STATE_MOVING, holder: 'a', movingTo: 'b' });
    cluster.heal();
    cluster.network.onArrival = ({ what, way }) => {
      if (what === 'takePartition' && way === 'request') cutOff(cluster, 'b');
    };
    await cluster.pass(20_000);
    expect(await seen()).toMatchObject({
      state: PartitionState.PARTITION_STATE_UNRESOLVED,
      holder: 'a',
      movingTo: 'b',
    });
  });
});

describe('a member that is drained', () => {
  test.each(['a', 'b'])('through node %s hands everything over and leaves', async (through) => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    const before = b.partitions.held().length;
    const drain = () => cluster.run(administrationOf(cluster, through).drainMember({ name: 'b' }));
    expect(await drain()).toEqual({ partitionsHeld: before });
    expect(b.agent.self?.state).toBe('leaving');
    // A repetition changes nothing.
    await drain();
    await cluster.run(b.agent.left);
    expect(idsHeldBy(b)).toEqual([]);
    await cluster.pass(1_000);
    expect(cluster.node('a').agent.members.get('id-b')).toMatchObject({ state: 'left', removedBy: '' });
    await expect(drain()).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    expect(Object.values(cluster.shares()).reduce((sum, share) => sum + share, 0)).toBe(32);
  });

  test('continues after a crash', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    await cluster.run(administrationOf(cluster, 'a').drainMember({ name: 'b' }));
    await cluster.run(b.lose());
    await cluster.run(b.start());
    await cluster.run(b.agent.left);
    expect(cluster.shares()).toEqual({ a: 32, b: 0 });
  });

  test('must not be the last member, must answer and must exist', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const drain = (name: string) => cluster.run(administrationOf(cluster, 'a').drainMember({ name }));
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    await expect(drain('b')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE', metadata: { members: 'b' } });
    await expect(drain('x')).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    await removeMembers(cluster, 'a', 'b');
    await expect(drain('a')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
  });

  test('leaves the outcome open if its answer was lost', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const drain = (through: string) => cluster.run(administrationOf(cluster, through).drainMember({ name: 'b' }));
    cluster.network.onArrival = ({ what, way }) => {
      if (what === 'leave' && way === 'request') cutOff(cluster, 'b');
    };
    await expect(drain('a')).rejects.toMatchObject({ reason: 'OUTCOME_UNKNOWN', metadata: { members: 'b' } });
    expect(cluster.node('b').agent.self?.state).toBe('leaving');
  });

  test('is chosen by its id if another member has the same name, because both joined at the same moment', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('a').agent.members.get('id-b');
    if (!b) throw new Error('b is no member');
    const twin = { ...toWireRecord(b), nodeId: 'id-x', rpcAddress: 'x:1', gossipAddress: 'x:2' };
    const { exchange } = cluster.node('b').agent.handlers;
    const knowledge = { members: [twin], holders: [] };
    await cluster.run(exchange({ clusterId: 'cluster-1', from: 'id-x', knowledge, release: undefined }));
    await cluster.pass(1_000);
    const drain = (name: string) => cluster.run(administrationOf(cluster, 'a').drainMember({ name }));
    await expect(drain('b')).rejects.toMatchObject({
      reason: 'NAME_IN_USE',
      message: expect.stringContaining('id-b at b:1, id-x at x:1'),
    });
    expect(await drain('id-b')).toMatchObject({ partitionsHeld: expect.any(Number) });
    expect(cluster.node('b').agent.self?.state).toBe('leaving');
  });

  test('is not confused with another node that has its address now', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    cluster.nodes.set('b', cluster.node('c'));
    const drained = cluster.run(administrationOf(cluster, 'a').drainMember({ name: 'b' }));
    await expect(drained).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    expect(cluster.node('c').agent.self?.state).toBe('active');
  });
});

describe('calls of another cluster', () => {
  test('are all refused', async () => {
    const cluster = await clusterOf(['a']);
    const { handlers } = cluster.node('a').agent;
    const clusterId = 'another';
    const refused = { reason: 'WRONG_CLUSTER' };
    await expect(
      handlers.exchange({ clusterId, from: 'id-x', knowledge: undefined, release: undefined }),
    ).rejects.toMatchObject(refused);
    await expect(handlers.inventory({ clusterId })).rejects.toMatchObject(refused);
    await expect(handlers.leave({ clusterId, nodeId: 'id-a' })).rejects.toMatchObject(refused);
    await expect(
      handlers.removeMembers({ clusterId, nodeId: 'id-a', also: [], acceptLoss: true }),
    ).rejects.toMatchObject(refused);
    // Only a proxy may not know the cluster's id yet.
    const stranger = handlers.exchange({ clusterId: '', from: 'id-x', knowledge: undefined, release: undefined });
    await expect(stranger).rejects.toMatchObject(refused);
  });
});
