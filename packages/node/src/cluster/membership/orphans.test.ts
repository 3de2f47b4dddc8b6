import { describe, expect, test } from 'vitest';
import {
  CLAIM_MS,
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  idsHeldBy,
  lose,
  removeMembers,
  start,
} from '../../testing/cluster-fixtures.ts';

describe('the node that claims the partitions of a removed member', () => {
  test('first hears every other member', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const held = b.partitions.held();
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await lose(cluster, 'c');
    await cluster.pass(60_000);
    for (const { id } of held) expect(cluster.serving(id)).toEqual([]);
    const claimed = new Map<number, number>();
    cluster.onHoldings = ({ name, partitions }) => {
      if (name !== 'a') return;
      for (const { id, epoch } of partitions.held()) if (!claimed.has(id)) claimed.set(id, epoch);
    };
    await start(cluster, 'c');
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
    // No unseen hand-off of the removed member can have this epoch.
    for (const { id, epoch } of held) expect(claimed.get(id)).toBe(epoch + 2);
  });

  test('claims at a later epoch than removed members had, even if they handed a partition back and forth unseen', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const [b, c] = [cluster.node('b'), cluster.node('c')];
    const [id] = idsHeldBy(b);
    if (id === undefined) throw new Error('node b holds nothing');
    cutOff(cluster, 'a');
    for (let round = 0; round < 3; round++) {
      if (c.partitions.holds(id)) await cluster.run(c.send(id, b));
      if (b.partitions.holds(id)) await cluster.run(b.send(id, c));
    }
    const { epoch = 0 } = c.partitions.holding(id) ?? b.partitions.holding(id) ?? {};
    expect(epoch).toBeGreaterThan((cluster.node('a').agent.view.get(id)?.epoch ?? 0) + 2);
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    expect(cluster.node('a').partitions.holding(id)?.epoch).toBeGreaterThan(epoch);
  });

  test('is the deciding node, after it died between decision and claim and restarted', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const orphans = ['c', 'd'].flatMap((name) => idsHeldBy(cluster.node(name)));
    await lose(cluster, 'c', 'd');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'c', 'd');
    await lose(cluster, 'a');
    await cluster.pass(60_000);
    for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
    await start(cluster, 'a');
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });

  test('is a member that knows of the removal, even if the deciding member is removed, too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const orphans = [...idsHeldBy(cluster.node('d')), ...idsHeldBy(cluster.node('a'))];
    await lose(cluster, 'd');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'd');
    await lose(cluster, 'a');
    await cluster.pass(DEATH_MS);
    expect(await removeMembers(cluster, 'c', 'a')).toMatchObject({ removed: true });
    await cluster.pass(60_000);
    expect(orphans.length).toBeGreaterThan(0);
    expectOneHolderEach(cluster);
    for (const id of orphans) expect(['b', 'c']).toEqual(expect.arrayContaining(cluster.serving(id)));
  });

  test('continues after a restart of all nodes', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'c');
    await lose(cluster, 'a', 'b');
    await start(cluster, 'a', 'b');
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
      await lose(cluster, 'd');
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
