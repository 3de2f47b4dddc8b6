import { describe, expect, test } from 'vitest';
import { clusterOf, DEATH_MS, expectOneHolderEach, fill, giveUp, idsHeldBy } from '../testing/cluster-fixtures.ts';

describe('who claims what a removed member held', () => {
  test('hears every other member before', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const held = b.partitions.held();
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'b');
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(60_000);
    for (const { id } of held) expect(cluster.serving(id)).toEqual([]);
    const claimed = new Map<number, number>();
    cluster.onHoldings = ({ name, partitions }) => {
      if (name !== 'a') return;
      for (const { id, epoch } of partitions.held()) if (!claimed.has(id)) claimed.set(id, epoch);
    };
    await cluster.run(cluster.node('c').start());
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
    // Nothing that the removed member did unheard can be of that epoch.
    for (const { id, epoch } of held) expect(claimed.get(id)).toBe(epoch + 2);
  });

  test('is who decided, when it is back after it died between the decision and the claim', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await fill(cluster, '1');
    const orphans = idsHeldBy(cluster.node('d'));
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'd');
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(60_000);
    for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
    await cluster.run(cluster.node('a').start());
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });

  test('is one who knows of the removal though the one who decided is given up too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const orphans = [...idsHeldBy(cluster.node('d')), ...idsHeldBy(cluster.node('a'))];
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'd');
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(DEATH_MS);
    expect(await giveUp(cluster, 'c', 'a')).toMatchObject({ removed: true });
    await cluster.pass(60_000);
    expect(orphans.length).toBeGreaterThan(0);
    expectOneHolderEach(cluster);
    for (const id of orphans) expect(['b', 'c']).toEqual(expect.arrayContaining(cluster.serving(id)));
  });

  test('goes on after all nodes were started again', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'c');
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).lose());
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).start());
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });
});
