import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  idsHeldBy,
  removeMembers,
} from '../../testing/cluster-fixtures.ts';

describe('the node that claims the partitions of a removed member', () => {
  test('first hears every other member', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const held = b.partitions.held();
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
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
    // No unseen hand-off of the removed member can have this epoch.
    for (const { id, epoch } of held) expect(claimed.get(id)).toBe(epoch + 2);
  });

  test('is the deciding node, after it died between decision and claim and restarted', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await fill(cluster, '1');
    const orphans = idsHeldBy(cluster.node('d'));
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'd');
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(60_000);
    for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
    await cluster.run(cluster.node('a').start());
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });

  test('is a member that knows of the removal, even if the deciding member is removed, too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const orphans = [...idsHeldBy(cluster.node('d')), ...idsHeldBy(cluster.node('a'))];
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'd');
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(DEATH_MS);
    expect(await removeMembers(cluster, 'c', 'a')).toMatchObject({ removed: true });
    await cluster.pass(60_000);
    expect(orphans.length).toBeGreaterThan(0);
    expectOneHolderEach(cluster);
    for (const id of orphans) expect(['b', 'c']).toEqual(expect.arrayContaining(cluster.serving(id)));
  });

  test('continues after a restart of all nodes', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'c');
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).lose());
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).start());
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });

  test.each([
    ['while it cleared old rows', 'first', false],
    ['and its rows are on disk', 'last', true],
    ['and its rows are lost', 'last', false],
  ])(
    'shares no epoch with a node whose claim failed %s, while it is not known what is on its disk',
    async (_, failing, kept) => {
      const cluster = await clusterOf(['b', 'c', 'd']);
      const b = cluster.node('b');
      const orphans = idsHeldBy(cluster.node('d'));
      await cluster.run(cluster.node('d').lose());
      await cluster.pass(DEATH_MS);
      await removeMembers(cluster, 'b', 'd');
      const { partitions } = b;
      const claim = partitions.claim.bind(partitions);
      const clears = orphans.filter((id) => partitions.holding(id) !== undefined).length;
      let claims = 0;
      partitions.claim = (claimed) => {
        if (claims++ === 0) b.h.disk.failSync(failing === 'first' ? 1 : clears + 1);
        return claim(claimed);
      };
      await cluster.pass(DEATH_MS);
      expect(claims).toBeGreaterThan(0);
      // Now another node decides.
      cutOff(cluster, 'b', ['a']);
      const a = cluster.add('a');
      void a.start();
      await cluster.pass(5_000);
      cluster.heal();
      await cluster.pass(60_000);
      expect(a.agent.self?.state).toBe('active');
      for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
      b.h.disk.random.int = (below) => (kept ? below - 1 : 0);
      await cluster.run(b.lose());
      await cluster.run(b.start());
      expect(orphans.every((id) => b.partitions.holding(id)?.kind === 'serving')).toBe(kept);
      for (let passed = 0; passed < 60_000; passed += 500) {
        await cluster.pass(500);
        for (const id of orphans) expect(cluster.serving(id).length).toBeLessThan(2);
      }
      expectOneHolderEach(cluster);
    },
  );
});
