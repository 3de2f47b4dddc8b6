import {
  LastMemberError,
  MemberAliveError,
  MemberLeftError,
  NoClusterError,
  UnavailableError,
  UnknownMemberError,
} from '@taskmaster/client';
import { MemberRole, MemberState, PartitionState } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';
import { FakeCluster, fakeMember, fakePartition } from './support/fake-cluster.ts';

/** A client of a node whose cluster is a fake. */
function withCluster() {
  const made = clientSetUp();
  const cluster = new FakeCluster();
  const { transport } = made;
  transport.isInProcess = false;
  transport.answers.listMembers = async () => cluster.listMembers();
  transport.answers.listPartitions = async () => cluster.listPartitions();
  transport.answers.drainMember = async ({ name }) => cluster.drainMember(name);
  transport.answers.resumeMember = async ({ name }) => cluster.resumeMember(name);
  transport.answers.removeMember = async (request) => cluster.removeMember(request);
  return { ...made, cluster };
}

test('members are nodes with a state, and proxies', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [
    fakeMember({ name: 'a', partitionsHeld: 2, partitionsWanted: 1, rpcAddress: '127.0.0.1:1' }),
    fakeMember({ name: 'b', state: MemberState.MEMBER_STATE_LEFT, alive: false, version: '', removedBy: 'a' }),
    fakeMember({ name: 'p', role: MemberRole.MEMBER_ROLE_PROXY, state: 0, suspect: true }),
  ];
  cluster.partitions = [fakePartition({ id: 0, holder: 'a' }), fakePartition({ id: 1, holder: 'a' })];
  const { clusterId, partitions, members } = await client.cluster.members();
  expect({ clusterId, partitions }).toEqual({ clusterId: 'c-1', partitions: 2 });
  expect(members).toEqual([
    {
      role: 'node',
      name: 'a',
      nodeId: 'id-a',
      state: 'active',
      alive: true,
      suspect: false,
      partitionsHeld: 2,
      partitionsWanted: 1,
      version: '0.1.0',
      rpcAddress: '127.0.0.1:1',
      gossipAddress: undefined,
      httpAddress: undefined,
      removedBy: undefined,
    },
    expect.objectContaining({ name: 'b', state: 'left', alive: false, version: undefined, removedBy: 'a' }),
    expect.objectContaining({ role: 'proxy', name: 'p', suspect: true }),
  ]);
  expect(members[2]).not.toHaveProperty('state');
});

test('partitions have a holder, if it is known, and the target of their hand-off', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [fakeMember({ name: 'a' })];
  cluster.partitions = [
    fakePartition({ id: 0, holder: 'a', queues: 3, tasks: 9 }),
    fakePartition({
      id: 1,
      holder: 'a',
      state: PartitionState.PARTITION_STATE_MOVING,
      wanted: 'b',
      epoch: 4,
      movingTo: 'b',
      movedRows: 10,
      movedBytes: 2_000,
    }),
    fakePartition({ id: 2, holder: '' }),
  ];
  cluster.unreachable = ['c'];
  const holder = { name: 'a', nodeId: 'id-a' };
  expect(await client.cluster.partitions()).toEqual({
    partitions: [
      { id: 0, holder, epoch: 1, state: 'serving', queues: 3, tasks: 9, wanted: 'a', movingTo: undefined },
      {
        id: 1,
        holder,
        epoch: 4,
        state: 'moving',
        queues: 0,
        tasks: 0,
        wanted: 'b',
        movingTo: { name: 'b', rows: 10, bytes: 2_000 },
      },
      expect.objectContaining({ id: 2, holder: undefined, wanted: undefined }),
    ],
    unreachable: ['c'],
  });
});

test('a state that only newer nodes know is unknown', async () => {
  const { client, cluster } = withCluster();
  const later = 77 as 1;
  cluster.members = [fakeMember({ name: 'a', state: later })];
  cluster.partitions = [fakePartition({ id: 0, holder: 'a', state: later })];
  expect((await client.cluster.members()).members).toMatchObject([{ state: 'unknown' }]);
  expect((await client.cluster.partitions()).partitions).toMatchObject([{ state: 'unknown' }]);
});

test('a drained member leaves when everything is handed over', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [fakeMember({ name: 'a' }), fakeMember({ name: 'b', partitionsHeld: 2 })];
  expect(await client.cluster.drain('b')).toEqual({ partitionsHeld: 2 });
  const looks = [await client.cluster.members(), await client.cluster.members(), await client.cluster.members()];
  expect(looks.map(({ members }) => members[1])).toMatchObject([
    { state: 'leaving', partitionsHeld: 2 },
    { state: 'leaving', partitionsHeld: 1 },
    { state: 'left', partitionsHeld: 0 },
  ]);
});

test('a member that is being drained can be kept', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [fakeMember({ name: 'a' }), fakeMember({ name: 'b', partitionsHeld: 2 })];
  await client.cluster.drain('b');
  expect(await client.cluster.resume('b')).toEqual({ partitionsHeld: 2 });
  expect((await client.cluster.members()).members[1]).toMatchObject({ state: 'active' });
});

test('members are removed only when the loss is accepted, one or several at once', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [
    fakeMember({ name: 'a' }),
    fakeMember({ name: 'b', alive: false }),
    fakeMember({ name: 'c', alive: false }),
  ];
  cluster.lost = [
    { id: 3, counted: true, queues: 1, tasks: 5, member: 'b' },
    { id: 4, counted: false, queues: 0, tasks: 0, member: '' },
  ];
  cluster.takenBackBy = ['a'];
  const outcome = {
    lost: [
      { id: 3, member: 'b', counted: { queues: 1, tasks: 5 } },
      { id: 4, member: undefined, counted: undefined },
    ],
    takenBackBy: ['a'],
  };
  const states = (): unknown[] => cluster.members.map(({ state }) => state);
  const { MEMBER_STATE_ACTIVE: active, MEMBER_STATE_LEFT: left } = MemberState;
  expect(await client.cluster.remove(['b', 'c'])).toEqual({ removed: false, claimed: false, ...outcome });
  expect(states()).toEqual([active, active, active]);
  const refused = client.cluster.remove('b', { acceptLoss: true });
  await expect(refused).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
  const removing = client.cluster.remove(['b', 'c'], { acceptLoss: true });
  expect(await removing).toEqual({ removed: true, claimed: true, ...outcome });
  expect(states()).toEqual([active, left, left]);
});

test('a removal need not wait until the lost partitions are served again', async () => {
  const { client, cluster } = withCluster();
  cluster.members = [fakeMember({ name: 'a' }), fakeMember({ name: 'b', alive: false })];
  const outcome = await client.cluster.remove('b', { acceptLoss: true, wait: 0 });
  expect(outcome).toMatchObject({ removed: true, claimed: false });
  await expect(client.cluster.remove([])).rejects.toThrow(TypeError);
});

describe('refusals are', () => {
  test('of the class that callers catch', async () => {
    const made = withCluster();
    const { cluster } = made.client;
    await expect(cluster.members()).rejects.toBeInstanceOf(NoClusterError);
    await expect(cluster.partitions()).rejects.toMatchObject({ reason: 'NO_CLUSTER', retryable: false });
    made.cluster.members = [fakeMember({ name: 'a' }), fakeMember({ name: 'b', alive: false })];
    await expect(cluster.drain('nobody')).rejects.toBeInstanceOf(UnknownMemberError);
    await expect(cluster.remove('a', { acceptLoss: true })).rejects.toBeInstanceOf(MemberAliveError);
    await cluster.remove('b', { acceptLoss: true });
    await expect(cluster.drain('b')).rejects.toBeInstanceOf(MemberLeftError);
    await expect(cluster.resume('b')).rejects.toBeInstanceOf(MemberLeftError);
    await expect(cluster.drain('a')).rejects.toBeInstanceOf(LastMemberError);
  });

  test('fails at once if a member does not answer, because the operator must learn of it', async () => {
    const { client, cluster, transport } = withCluster();
    cluster.members = [fakeMember({ name: 'a' }), fakeMember({ name: 'b', alive: false })];
    const draining: unknown = await client.cluster.drain('b').catch((error) => error);
    expect(draining).toBeInstanceOf(UnavailableError);
    expect(draining).toMatchObject({ reason: 'HOLDER_UNREACHABLE', maybeApplied: false });
    expect(transport.arrived.drainMember).toHaveLength(1);
  });

  test('NO_CLUSTER in process', async () => {
    const { client } = clientSetUp();
    for (const refused of [client.cluster.members(), client.cluster.drain('a'), client.cluster.remove('a')]) {
      await expect(refused).rejects.toBeInstanceOf(NoClusterError);
    }
  });
});

test('calls are given up by their signal', async () => {
  const { client, transport } = withCluster();
  await expect(client.cluster.members({ signal: AbortSignal.abort() })).rejects.toMatchObject({ reason: 'CANCELLED' });
  expect(transport.arrived.listMembers).toEqual([]);
});
