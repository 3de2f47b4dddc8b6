import { partitionOf } from '@taskmaster/proto';
import type { PartitionId } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import { DEATH_MS, giveUp } from '../../testing/cluster-fixtures.ts';
import { pidsOf } from '../../testing/engine-harness.ts';
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

/** Has a node hold the partition with a task in it. */
async function putAt(cluster: SimCluster, name: string): Promise<void> {
  const holder = cluster.holderOf('orders');
  if (holder && holder.name !== name) await cluster.run(holder.send(P, cluster.node(name)));
  await cluster.run(cluster.node(name).h.enqueue(QUEUE, ['1']));
}

/** Nothing passes between a node and all others. */
function cutOff(cluster: SimCluster, name: string): void {
  for (const other of cluster.nodes.keys()) {
    cluster.cut.add(`${name}>${other}`);
    cluster.cut.add(`${other}>${name}`);
  }
}

describe('a node that leaves', () => {
  test('hands over to one that joins, though all that stay are lost: those are given up then', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await putAt(cluster, 'a');
    await cluster.run(cluster.node('a').agent.leave());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).lose());
    await cluster.pass(DEATH_MS);
    await expect(giveUp(cluster, 'a', 'b', 'c')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
    await cluster.run(cluster.add('d').start());
    expect(await giveUp(cluster, 'a', 'b', 'c')).toMatchObject({ removed: true });
    await cluster.run(cluster.node('a').agent.left);
    await cluster.pass(20_000);
    expect(cluster.shares()).toEqual({ a: 0, d: 8 });
    expect(pidsOf(await cluster.run(cluster.node('d').h.lease(QUEUE)))).toEqual(['1']);
  });

  test('says which member it waits for, where one that takes its share is dead', async () => {
    const warnings: string[] = [];
    const warn = (_: object, message: string): void => void warnings.push(message);
    const log = { debug: () => {}, info: () => {}, warn, error: () => {} };
    const cluster = await clusterOf(['a', 'b', 'c'], { log: () => log });
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(DEATH_MS);
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(60_000);
    const said = warnings.filter((message) => message.includes('cannot leave'));
    expect(said).toEqual([expect.stringContaining('partitions over to c: start it')]);
    expect(cluster.node('a').agent.self?.state).toBe('leaving');
    await cluster.run(cluster.node('c').start());
    await cluster.run(cluster.node('a').agent.left);
  });

  test('takes nothing any more, though others may not have heard of it yet', async () => {
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

  test('is known to have left before it knows itself: a crash leaves nobody waiting for it', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    await putAt(cluster, 'b');
    // Once everything is handed over, nobody can be told.
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

  test('leaves nobody behind who does not know whether it took a partition', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await putAt(cluster, 'a');
    const [a, b, c] = [cluster.node('a'), cluster.node('b'), cluster.node('c')];
    // The last request of the hand-off is not carried out, and nobody is there to ask what became of it.
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
    // The ring wants some at the node that is down.
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
