import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { toWireRecord } from '@taskmaster/server/cluster-view';
import { describe, expect, test } from 'vitest';
import { cutOff, DEATH_MS, lose, removeMembers, start } from '../../testing/cluster-fixtures.ts';
import { SimCluster, type SimClusterOptions } from '../../testing/sim-cluster.ts';

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
