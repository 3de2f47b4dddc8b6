import type { PartitionId } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { SimCluster, type SimNode } from '../../../testing/sim-cluster.ts';

const PARTITIONS = 12;
const GROUP = 'orders';
const QUEUE = `${GROUP}#new`;
const P = partitionOf(GROUP, PARTITIONS) as PartitionId;

const served = (cluster: SimCluster): number => Object.values(cluster.shares()).reduce((sum, share) => sum + share, 0);

/** Passes time until it is so. Returns how long that took, in ms. */
async function until(cluster: SimCluster, isSo: () => boolean, withinMs = 10_000): Promise<number> {
  for (let ms = 0; ms < withinMs; ms += 50) {
    if (isSo()) return ms;
    await cluster.pass(50);
  }
  throw new Error(`it is not so after ${withinMs} ms: ${JSON.stringify(cluster.shares())}`);
}

const started = (...names: readonly string[]): Promise<SimCluster> => startedWith(PARTITIONS, names);

async function startedWith(partitions: number, names: readonly string[]): Promise<SimCluster> {
  const cluster = new SimCluster({ shared: {}, partitions });
  for (const name of names) {
    await cluster.run(cluster.add(name).start());
    await until(
      cluster,
      () => Object.values(cluster.shares()).every((share) => share > 0) && served(cluster) === partitions,
    );
  }
  return cluster;
}

const holderOf = (cluster: SimCluster): SimNode => {
  const holder = cluster.holderOf(GROUP);
  if (holder === undefined) throw new Error('no node serves the group');
  return holder;
};

test('a node that joins serves its share at once, and no row is copied', async () => {
  const cluster = await started('a', 'b');
  await cluster.run(holderOf(cluster).h.enqueue(QUEUE, ['1', '2']));
  const rows = cluster.database?.rowsOf(Family.data).length;
  const c = cluster.add('c');
  await cluster.run(c.start());
  const { desired } = c.agent;
  expect(
    await until(cluster, () =>
      desired.every((nodeId, id) => cluster.serving(id as PartitionId)[0] === nodeId.slice(3)),
    ),
  ).toBeLessThan(1_000);
  expect(cluster.database?.rowsOf(Family.data).length).toBe(rows);
  expect(await cluster.run(holderOf(cluster).h.counts(QUEUE))).toMatchObject({ available: 2 });
});

test('a node that dies is fenced, and others serve what it held, with everything acknowledged', async () => {
  const cluster = await started('a', 'b', 'c');
  const holder = holderOf(cluster);
  await cluster.run(holder.h.enqueue(QUEUE, ['1', '2']));
  holder.kill();
  expect(await until(cluster, () => served(cluster) === PARTITIONS)).toBeLessThan(5_000);
  const next = holderOf(cluster);
  expect(next).not.toBe(holder);
  expect(await cluster.run(next.h.counts(QUEUE))).toMatchObject({ available: 2 });
  // It comes back, and gets its share again.
  await cluster.run(holder.start());
  await until(cluster, () => holderOf(cluster) === holder);
  expect(await cluster.run(holder.h.counts(QUEUE))).toMatchObject({ available: 2 });
});

test('the last node serves everything, and needs no answer of another one', async () => {
  const cluster = await started('a', 'b', 'c');
  for (const name of ['a', 'b', 'c']) cluster.node(name).kill();
  const last = cluster.node('b');
  await cluster.run(last.start());
  await until(cluster, () => served(cluster) === PARTITIONS);
  expect(cluster.shares()).toEqual({ b: PARTITIONS });
});

test('of a divided cluster only one side takes partitions from the other', async () => {
  const cluster = await started('a', 'b');
  cluster.cut.add('a>b').add('b>a');
  const lost: string[] = [];
  cluster.onLost = ({ name }) => lost.push(name);
  await cluster.pass(20_000);
  expect(new Set(lost)).toEqual(new Set(['b']));
  expect(cluster.shares()).toMatchObject({ a: PARTITIONS });
});

test('a node that hangs is fenced, and serves nothing when it goes on', async () => {
  const cluster = await started('a', 'b', 'c');
  const holder = holderOf(cluster);
  await cluster.run(holder.h.enqueue(QUEUE, ['1']));
  let lost: string | undefined;
  cluster.onLost = ({ name }) => {
    lost = name;
  };
  holder.h.clock.standStill();
  await until(cluster, () => cluster.serving(P).some((name) => name !== holder.name));
  holder.h.clock.goOn();
  await expect(cluster.run(holder.h.counts(QUEUE))).rejects.toThrow();
  await until(cluster, () => lost !== undefined);
  expect(lost).toBe(holder.name);
  expect(holder.partitions.held()).toEqual([]);
});

test('a drained node gives up everything and leaves', async () => {
  const cluster = await started('a', 'b');
  const a = cluster.node('a');
  await cluster.run(a.agent.drain());
  expect(a.partitions.held()).toEqual([]);
  await until(cluster, () => served(cluster) === PARTITIONS);
  expect(cluster.shares()).toMatchObject({ b: PARTITIONS });
});

test('a node that leaves passes on what comes to it, without opening it', async () => {
  const cluster = await started('a', 'b', 'c');
  const [a, b] = ['a', 'b'].map((name) => cluster.node(name)) as [SimNode, SimNode];
  const late = b.partitions.held()[0]?.id;
  if (late === undefined) throw new Error('b holds nothing');
  const lost: string[] = [];
  cluster.onLost = ({ name }) => lost.push(name);
  let opened = false;
  a.partitions.onChange(() => {
    opened ||= a.partitions.holds(late);
  });
  const drained = a.agent.drain();
  // It does not know yet that `a` leaves.
  await cluster.run(b.partitions.shared?.leave([late], { name: 'a', nodeId: a.agent.nodeId }) ?? Promise.resolve());
  await cluster.run(drained);
  expect(await until(cluster, () => served(cluster) === PARTITIONS)).toBeLessThan(2_000);
  expect([opened, lost, a.partitions.held()]).toEqual([false, [], []]);
});

test('a node whose drain is taken back gets its share again', async () => {
  // More than are given in one go.
  const cluster = await startedWith(128, ['a', 'b']);
  const [a, before] = [cluster.node('a'), cluster.shares()];
  const given = new Promise<void>((resolve) => {
    a.partitions.onChange(() => {
      if (a.partitions.held().length < (before.a ?? 0)) resolve();
    });
  });
  await cluster.run(a.agent.leave());
  await cluster.run(given);
  await cluster.run(a.agent.stay());
  await cluster.pass(10_000);
  expect(cluster.shares()).toEqual(before);
});

test('a pause of the database fences nobody', async () => {
  const cluster = await started('a', 'b', 'c');
  const lost: string[] = [];
  cluster.onLost = ({ name }) => lost.push(name);
  for (const name of ['a', 'b', 'c']) cluster.database?.cut.add(name);
  await cluster.pass(15_000);
  cluster.database?.cut.clear();
  await cluster.pass(5_000);
  expect(lost).toEqual([]);
  expect(served(cluster)).toBe(PARTITIONS);
});
