import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { toWireRecord } from '@taskmaster/server/cluster-view';
import { describe, expect, test } from 'vitest';
import {
  administrationOf,
  cutOff,
  DEATH_MS,
  fill,
  lose,
  removeMembers,
  start,
} from '../../testing/cluster-fixtures.ts';
import { SimCluster, type SimClusterOptions } from '../../testing/sim-cluster.ts';
import { MemberStore } from './member-store.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 8) as PartitionId;

async function clusterOf(names: readonly string[], options: SimClusterOptions = {}): Promise<SimCluster> {
  const cluster = new SimCluster({ partitions: 8, ...options });
  for (const name of names) {
    await cluster.run(cluster.add(name).start());
    await cluster.pass(20_000);
  }
  return cluster;
}

/** Lets a node hold the partition, with a task in it. */
async function putAt(cluster: SimCluster, name: string): Promise<void> {
  const holder = cluster.holderOf('orders');
  if (holder && holder.name !== name) await cluster.run(holder.send(P, cluster.node(name)));
  await cluster.run(cluster.node(name).h.enqueue(QUEUE, ['1']));
}

describe('a node that leaves', () => {
  test('hands over to a node that joins, although all other members are lost; these are removed then', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await putAt(cluster, 'a');
    await cluster.run(cluster.node('a').agent.leave());
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await expect(removeMembers(cluster, 'a', 'b', 'c')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
    await cluster.run(cluster.add('d').start());
    expect(await removeMembers(cluster, 'a', 'b', 'c')).toMatchObject({ removed: true });
    await cluster.run(cluster.node('a').agent.left);
    await cluster.pass(20_000);
    expect(cluster.shares()).toEqual({ a: 0, d: 8 });
    expect(pidsOf(await cluster.run(cluster.node('d').h.lease(QUEUE)))).toEqual(['1']);
  });

  test('lets a new node become active that knows it as a member that has left, if all others are lost', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    // Once b has handed over everything, no member is left that it could tell.
    b.partitions.onChange(() => {
      if (b.partitions.held().length === 0) void a.lose();
    });
    await cluster.run(b.agent.leave());
    await cluster.pass(DEATH_MS);
    expect(b.agent.self?.state).toBe('leaving');
    const { self } = b.agent;
    if (!self) throw new Error('b has no record of its own');
    // Node b had told this to a member that is leaving, too.
    const left = toWireRecord({ ...self, state: 'left', version: self.version + 1 });
    const knowledge = { members: [left], holders: [] };
    const d = cluster.add('d');
    cluster.network.onArrival = ({ what, way }) => {
      if (what !== 'join' || way !== 'answer') return;
      void d.handlers?.exchange({ clusterId: 'cluster-1', from: 'id-c', knowledge, release: undefined });
    };
    const started = d.start();
    await cluster.pass(DEATH_MS);
    expect(d.agent.members.get('id-b')?.state).toBe('left');
    expect(d.agent.self?.state).toBe('active');
    await cluster.run(started);
    await cluster.run(b.agent.left);
    expect(await removeMembers(cluster, 'd', 'a')).toMatchObject({ removed: true });
    await cluster.pass(20_000);
    expect(cluster.node('d').partitions.held()).toHaveLength(8);
  });

  test('says which member it waits for, if a member that must take its share is dead', async () => {
    const warnings: string[] = [];
    const warn = (_: object, message: string): void => void warnings.push(message);
    const log = { debug: () => {}, info: () => {}, warn, error: () => {} };
    const cluster = await clusterOf(['a', 'b', 'c'], { log: () => log });
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(60_000);
    const said = warnings.filter((message) => message.includes('cannot leave'));
    expect(said).toEqual([expect.stringContaining('partitions over to c: start it')]);
    expect(cluster.node('a').agent.self?.state).toBe('leaving');
    await start(cluster, 'c');
    await cluster.run(cluster.node('a').agent.left);
  });

  test('takes no more partitions, even if other members do not know yet that it leaves', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await putAt(cluster, 'a');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const drained = b.agent.drain();
    const sent = a.send(P, b);
    sent.catch(() => {});
    await cluster.run(drained);
    await expect(cluster.run(sent)).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    expect(b.partitions.held()).toEqual([]);
    expect(cluster.serving(P)).toEqual(['a']);
  });

  test('is known to have left before it stores that itself: after a crash no member waits for it', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    await putAt(cluster, 'b');
    // Once everything is handed over, no member can be told.
    b.partitions.onChange(() => {
      if (b.partitions.held().length === 0) cutOff(cluster, 'b');
    });
    b.agent.drain().catch(() => {});
    await cluster.pass(10_000);
    expect(cluster.cut.size).toBeGreaterThan(0);
    await cluster.run(b.lose());
    cluster.heal();
    await cluster.run(b.start());
    await cluster.pass(10_000);
    expect(cluster.up.map(({ agent }) => agent.members.get('id-b')?.state)).toEqual(['left', 'left', 'left']);
  });

  test('ignores its own news from other members: the member that sends it may be leaving, too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const b = cluster.node('b');
    cutOff(cluster, 'b');
    await cluster.run(b.agent.leave());
    const { self } = b.agent;
    if (!self) throw new Error('b has no record of its own');
    const left = toWireRecord({ ...self, state: 'left', version: self.version + 1 });
    const knowledge = { members: [left], holders: [] };
    const told = b.handlers?.exchange({ clusterId: 'cluster-1', from: 'id-c', knowledge, release: undefined });
    await cluster.run(told ?? Promise.reject(new Error('b is down')));
    expect(b.agent.self?.state).toBe('leaving');
    await cluster.run(b.lose());
    cluster.heal();
    await cluster.run(b.start());
    await cluster.pass(30_000);
    expect(cluster.up.map(({ agent }) => agent.members.get('id-b')?.state)).toEqual(['left', 'left', 'left']);
    expect(cluster.shares()).toMatchObject({ b: 0 });
  });

  test('tells a member that stays: a member that is leaving, too, may be gone before it passes the news on', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const [a, b, c] = [cluster.node('a'), cluster.node('b'), cluster.node('c')];
    // b cannot hand over its partitions, so it keeps leaving. Node a reaches only b after it has handed over its last one.
    cluster.cut.add('b>c').add('c>b');
    a.partitions.onChange(() => {
      if (a.partitions.held().length === 0) cluster.cut.add('a>c').add('c>a');
    });
    const left: string[] = [];
    void a.agent.left.then(() => left.push('a'));
    await cluster.run(a.agent.leave());
    await cluster.pass(20);
    await cluster.run(b.agent.leave());
    await cluster.pass(20_000);
    expect(a.partitions.held()).toEqual([]);
    expect(b.agent.self?.state).toBe('leaving');
    expect(left).toEqual([]);
    await cluster.run(b.lose());
    cluster.heal();
    await cluster.pass(10_000);
    expect(left).toEqual(['a']);
    expect(c.agent.members.get('id-a')?.state).toBe('left');
  });

  test('leaves no partition unserved, even if its holder never learned whether the node took it', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await putAt(cluster, 'a');
    const [a, b, c] = [cluster.node('a'), cluster.node('b'), cluster.node('c')];
    // The last request of the hand-off is lost, and both nodes go down before the holder can ask for the outcome.
    cluster.network.onArrival = ({ what, to }) => {
      if (what !== 'takePartition' || to !== 'b') return;
      void a.lose();
      void b.lose();
    };
    a.send(P, b).catch(() => {});
    await cluster.pass(1_000);
    cluster.network.onArrival = undefined;
    await cluster.run(b.start());
    await cluster.pass(5_000);
    const drained = b.agent.drain();
    await cluster.pass(1_000);
    // The ring assigns some partitions to the node that is down.
    for (const { id } of b.partitions.held()) await cluster.run(b.send(id, c));
    await cluster.run(drained);
    await cluster.run(b.lose());
    await cluster.run(a.start());
    await cluster.pass(30_000);
    expect(c.agent.members.get('id-b')?.state).toBe('left');
    const holder = cluster.holderOf('orders');
    expect(holder).toBeDefined();
    if (holder) expect(pidsOf(await cluster.run(holder.h.lease(QUEUE)))).toEqual(['1']);
  });
});

describe('a drain that is taken back', () => {
  const drain = (cluster: SimCluster, name: string) =>
    cluster.run(administrationOf(cluster, 'a').drainMember({ name }));
  const resume = (cluster: SimCluster, name: string) =>
    cluster.run(administrationOf(cluster, 'a').resumeMember({ name }));
  const statesOf = (cluster: SimCluster, nodeId: string) =>
    cluster.up.map(({ agent }) => agent.members.get(nodeId)?.state);

  test.each(['a', 'b'])('halfway: node %s gets back what it had handed over', async (name) => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    await fill(cluster, '1');
    const node = cluster.node(name);
    const [before, share] = [cluster.shares(), node.partitions.held().length];
    const half = new Promise<void>((resolve) => {
      node.partitions.onChange(() => {
        if (node.partitions.held().length <= share / 2) resolve();
      });
    });
    await drain(cluster, name);
    await cluster.run(half);
    const { partitionsHeld } = await resume(cluster, name);
    expect(partitionsHeld).toBeGreaterThan(0);
    expect(partitionsHeld).toBeLessThan(share);
    await cluster.pass(20_000);
    expect(statesOf(cluster, `id-${name}`)).toEqual(['active', 'active', 'active']);
    expect(cluster.shares()).toEqual(before);
    // A repetition changes nothing.
    const version = node.agent.self?.version;
    expect(await resume(cluster, name)).toEqual({ partitionsHeld: share });
    expect(node.agent.self?.version).toBe(version);
    await drain(cluster, name);
    await cluster.run(node.agent.left);
    expect(node.partitions.held()).toEqual([]);
  });

  test('because a member that must take its share is dead', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const before = cluster.shares();
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    await drain(cluster, 'b');
    await cluster.pass(20_000);
    expect(cluster.node('b').agent.self?.state).toBe('leaving');
    await resume(cluster, 'b');
    await cluster.pass(20_000);
    expect(cluster.shares()).toMatchObject({ a: before.a, b: before.b });
  });

  test('after a restart of the node', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const b = cluster.node('b');
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    await drain(cluster, 'b');
    await cluster.run(b.lose());
    await cluster.run(b.start());
    await start(cluster, 'c');
    expect(b.agent.self?.state).toBe('leaving');
    await resume(cluster, 'b');
    await cluster.pass(20_000);
    expect(statesOf(cluster, 'id-b')).toEqual(['active', 'active', 'active']);
    expect(Object.values(cluster.shares()).reduce((sum, share) => sum + share, 0)).toBe(32);
    expect(b.partitions.held().length).toBeGreaterThan(0);
  });

  test('is refused once others may know that it has left, also after a crash', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const b = cluster.node('b');
    b.partitions.onChange(() => {
      if (b.partitions.held().length === 0) cutOff(cluster, 'b');
    });
    await drain(cluster, 'b');
    await cluster.pass(5_000);
    const there = () => cluster.run(administrationOf(cluster, 'b').resumeMember({ name: 'b' }));
    expect(b.agent.self?.state).toBe('leaving');
    await expect(there()).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    await cluster.run(b.lose());
    const started = b.start();
    started.catch(() => {});
    await cluster.pass(1_000);
    await expect(there()).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    cluster.heal();
    await cluster.run(started);
    await cluster.pass(10_000);
    expect(statesOf(cluster, 'id-b')).toEqual(['left', 'left', 'left']);
    await expect(resume(cluster, 'b')).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
  });

  test('is refused after a farewell, even if a crash has brought back partitions that were handed over', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const { store } = cluster.node('b').h;
    if (!store) throw new Error('the store is closed');
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    await drain(cluster, 'b');
    await cluster.run(new MemberStore(store).writeFarewell('id-b'));
    await expect(resume(cluster, 'b')).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
  });

  test('is refused while the process drains because it was told to stop, until it is started again', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { partitions: 32 });
    const b = cluster.node('b');
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    b.agent.drain().catch(() => {});
    await cluster.pass(1_000);
    await expect(resume(cluster, 'b')).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await cluster.run(b.stop());
    await cluster.run(b.start());
    await resume(cluster, 'b');
    expect(b.agent.self?.state).toBe('active');
  });

  test('must answer, must exist, and must be the node that is meant', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await expect(resume(cluster, 'x')).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    const { stay } = cluster.node('b').agent.handlers;
    await expect(stay({ clusterId: 'cluster-1', nodeId: 'id-a' })).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    await expect(stay({ clusterId: 'another', nodeId: 'id-b' })).rejects.toMatchObject({ reason: 'WRONG_CLUSTER' });
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    await expect(resume(cluster, 'b')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
  });
});
