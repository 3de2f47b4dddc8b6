import type { PartitionId } from '@taskmaster/engine/domain';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { askCluster, type Observer, openObserver, releaseOf } from '@taskmaster/server/cluster-view';
import { describe, expect, test } from 'vitest';
import { clusterOf, idsHeldBy } from '../../testing/cluster-fixtures.ts';
import { ALL_NODES, type SimCluster } from '../../testing/sim-cluster.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

async function observe(
  cluster: SimCluster,
  addresses: readonly string[],
  contacts: readonly string[] = [],
): Promise<Observer> {
  const clock = new VirtualClock({ time: cluster.time, machine: 'p' });
  const call = cluster.callFrom('p', clock);
  const { clusterId, partitions, knowledge } = await cluster.run(askCluster(call, addresses, releaseOf('0')));
  const proxy = {
    nodeId: 'id-p',
    name: 'p',
    role: 'proxy' as const,
    version: '0',
    stateVersion: 1,
    incarnation: 1,
    rpcAddress: 'p:1',
  };
  const seeds = [...cluster.nodes.keys()].map((name) => `${name}:2`);
  const membership = cluster.gossip.open(proxy, 'p:2', seeds, clock);
  const random = new SeededRandom(1);
  return openObserver({ membership, call, clock, random, log: SILENT, clusterId, partitions, knowledge, contacts });
}

const holders = (observer: Observer): (string | undefined)[] =>
  Array.from({ length: observer.partitions }, (_, id) => observer.holderOf(id)?.nodeId);
const truth = (cluster: SimCluster): (string | undefined)[] =>
  Array.from({ length: cluster.partitions }, (_, id) => {
    const [name] = cluster.serving(id as PartitionId);
    return name && `id-${name}`;
  });

describe('a process that only observes', () => {
  test('learns all holders from the first node that answers', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const observer = await observe(cluster, ['nobody:1', 'b:1']);
    expect(observer.partitions).toBe(32);
    expect(holders(observer)).toEqual(truth(cluster));
    expect(observer.holderOf(partitionOf('group-1', 32))).toMatchObject({ address: expect.stringMatching(/^[ab]:1$/) });
    const byName = [...observer.nodes()].sort((x, y) => (x.name < y.name ? -1 : 1));
    expect(byName).toEqual([
      { nodeId: 'id-a', name: 'a', address: 'a:1', alive: false },
      { nodeId: 'id-b', name: 'b', address: 'b:1', alive: false },
    ]);
    await cluster.pass(1_000);
    expect(observer.nodes().map(({ alive }) => alive)).toEqual([true, true]);
    observer.stop();
  });

  test('follows a hand-off within moments, and members that come and go', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const observer = await observe(cluster, ['a:1']);
    await cluster.pass(10_000);
    let changes = 0;
    const end = observer.onChange(() => changes++);
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const [id] = idsHeldBy(a);
    if (id === undefined) throw new Error('node a holds nothing');
    // Later the ring moves it back.
    await cluster.run(a.send(id, b));
    await cluster.pass(30);
    expect(observer.holderOf(id)).toMatchObject({ nodeId: 'id-b', address: 'b:1' });
    expect(changes).toBeGreaterThan(0);
    await cluster.run(cluster.add('c').start());
    await cluster.pass(30_000);
    expect(
      observer
        .nodes()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['a', 'b', 'c']);
    expect(holders(observer)).toEqual(truth(cluster));
    expect(truth(cluster)).toContain('id-c');
    await cluster.run(cluster.node('c').agent.drain());
    await cluster.pass(1_000);
    expect(
      observer
        .nodes()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['a', 'b']);
    end();
    observer.stop();
  });

  test('finds the cluster by a host name of all nodes, if all nodes that it knew are gone', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const observer = await observe(cluster, ['a:1'], ['a:1', `${ALL_NODES}:1`]);
    await cluster.pass(1_000);
    for (const gone of ['a', 'b']) {
      cluster.cut.add(`p>${gone}`);
      cluster.cut.add(`${gone}>p`);
    }
    await cluster.pass(10_000);
    const c = cluster.add('c');
    await cluster.run(c.start());
    await cluster.pass(20_000);
    await cluster.node('a').lose();
    await cluster.node('b').lose();
    await c.lose();
    void c.start();
    await cluster.pass(11_000);
    await cluster.run(c.agent.removal.remove(['id-a', 'id-b'], { acceptLoss: true, waitMs: 0 }));
    await cluster.pass(30_000);
    expect(truth(cluster)).toEqual(Array(32).fill('id-c'));
    expect(holders(observer)).toEqual(truth(cluster));
    observer.stop();
  });

  test('is no member: nodes learn nothing from it', async () => {
    const cluster = await clusterOf(['a']);
    const observer = await observe(cluster, ['a:1']);
    const { members } = cluster.node('a').agent;
    observer.learn(0, { nodeId: 'id-x', address: 'x:1', epoch: 99 });
    await cluster.pass(20_000);
    expect(cluster.node('a').agent.members).toBe(members);
    expect(cluster.node('a').agent.view.get(0 as PartitionId)).toMatchObject({ nodeId: 'id-a' });
    observer.stop();
  });
});
