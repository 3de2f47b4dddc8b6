import type { PartitionId } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import {
  CLAIM_MS,
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  GROUPS,
  groupsOf,
  idsHeldBy,
  lose,
  pidsIn,
  removeMembers,
  requestRemoval,
  start,
  stateOf,
} from '../../testing/cluster-fixtures.ts';
import type { SimNode } from '../../testing/sim-cluster.ts';

describe('the removal of members', () => {
  test.each([{ lost: ['b'] }, { lost: ['d', 'b'] }])(
    'is first only reported: which partitions of $lost, and how many tasks, would be lost',
    async ({ lost }) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      await fill(cluster, '1');
      await cluster.pass(15_000);
      const nodes = lost.map((name) => cluster.node(name));
      const held = nodes.flatMap((node) => idsHeldBy(node).map((id) => [id, node.name] as const));
      const tasks = nodes.flatMap((node) => groupsOf(cluster, node)).length;
      await lose(cluster, ...lost);
      await cluster.pass(DEATH_MS);
      for (const through of ['a', 'c']) {
        // It does not wait either, because nothing will be claimed.
        const report = await cluster.run(requestRemoval(cluster, through, lost, { acceptLoss: false, waitMs: 10_000 }));
        expect(report).toMatchObject({ removed: false, claimed: false, takenBackBy: [] });
        expect(report.lost.map(({ id, member }) => [id, member])).toEqual(held.toSorted(([a], [b]) => a - b));
        expect(report.lost.every(({ counted }) => counted)).toBe(true);
        expect(report.lost.reduce((sum, partition) => sum + partition.tasks, 0)).toBe(tasks);
      }
      for (const through of ['a', 'c']) for (const name of lost) expect(stateOf(cluster, through, name)).toBe('active');
    },
  );

  test.each([
    { lost: ['b'], through: 'a', removedBy: 'id-a' },
    { lost: ['b'], through: 'c', removedBy: 'id-a' },
    { lost: ['a', 'b'], through: 'd', removedBy: 'id-c' },
  ])(
    'of $lost through node $through: their partitions start empty, the others stay',
    async ({ lost, through, removedBy }) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      await fill(cluster, '1');
      const lostGroups = lost.flatMap((name) => groupsOf(cluster, cluster.node(name)));
      expect(lostGroups.length).toBeGreaterThan(0);
      await lose(cluster, ...lost);
      await cluster.pass(DEATH_MS);
      expect(await removeMembers(cluster, through, ...lost)).toMatchObject({ removed: true });
      await cluster.pass(30_000);
      expectOneHolderEach(cluster);
      for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(lostGroups.includes(group) ? [] : ['1']);
      await fill(cluster, '2');
      for (const group of lostGroups) expect(await pidsIn(cluster, group)).toEqual(['2']);
      for (const { agent } of cluster.up) {
        // The remaining member with the lowest id decides.
        for (const name of lost) expect(agent.members.get(`id-${name}`)).toMatchObject({ state: 'left', removedBy });
        expect([...agent.view.entries()].map(([id, { nodeId }]) => [id, nodeId])).toEqual([...agent.desired.entries()]);
      }
    },
  );

  test('leaves partitions that restart with larger lease tokens', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const [group = ''] = groupsOf(cluster, b);
    const queue = `${group}#q`;
    const tokenAt = async (node: SimNode): Promise<number> => {
      await cluster.run(node.h.enqueue(queue, ['1']));
      const [task] = await cluster.run(node.h.lease(queue));
      await cluster.run(node.h.update({ dequeue: [{ queue, pid: '1', token: task?.token }] }));
      return task?.token ?? 0;
    };
    const tokens = [await tokenAt(b), await tokenAt(b), await tokenAt(b)];
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(30_000);
    const next = cluster.holderOf(group);
    if (!next) throw new Error(`no node serves ${group}`);
    tokens.push(await tokenAt(next));
    await cluster.run(next.h.enqueue(queue, ['2']));
    await cluster.run(next.lose());
    await cluster.run(next.start());
    await cluster.pass(DEATH_MS);
    expect(await pidsIn(cluster, group)).toEqual(['2']);
    tokens.push(await tokenAt(next));
    expect(tokens).toEqual([...tokens].sort((x, y) => x - y));
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  test.each([
    { lost: ['a'], rest: ['b', 'c'], member: 'a' },
    // It is not known which of the two held a partition.
    { lost: ['a', 'b'], rest: ['c'], member: '' },
  ])(
    'leaves no partition without a holder, even if no remaining member knows what $lost held',
    async ({ lost, rest, member }) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      const held = lost.flatMap((name) => idsHeldBy(cluster.node(name))).toSorted((a, b) => a - b);
      await lose(cluster, 'a', 'b', 'c');
      await start(cluster, ...rest);
      await cluster.pass(DEATH_MS);
      const report = await removeMembers(cluster, 'c', ...lost);
      expect(report.lost.map(({ id }) => id)).toEqual(held);
      for (const partition of report.lost) expect(partition).toMatchObject({ counted: false, member });
      await cluster.pass(30_000);
      expectOneHolderEach(cluster);
      // The same after another restart.
      await lose(cluster, ...rest);
      await start(cluster, ...rest);
      await fill(cluster, '1');
      await cluster.pass(30_000);
      for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(['1']);
    },
  );

  test('leaves no partition without a holder, even one that the lost member took over unseen from a member that left', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => cluster.node(name)) as [SimNode, SimNode, SimNode, SimNode];
    const before = idsHeldBy(c);
    // Node a does not see it. The other one does, but a restart makes it forget where partitions are.
    cutOff(cluster, 'a');
    for (const id of before) await cluster.run(c.send(id, b));
    await cluster.run(c.agent.drain());
    const ids = before.filter((id) => b.partitions.holds(id));
    expect(ids.length).toBeGreaterThan(0);
    for (const node of [c, b, d]) await cluster.run(node.lose());
    cluster.cut.clear();
    await cluster.run(d.start());
    await cluster.pass(20_000);
    expect(a.agent.members.get('id-c')?.state).toBe('left');
    for (const id of ids) expect(a.agent.view.get(id)?.nodeId).toBe('id-c');

    const { removed, lost } = await removeMembers(cluster, 'a', 'b');
    expect(removed).toBe(true);
    expect(lost.map(({ id }) => id)).toEqual(expect.arrayContaining(ids));
    await cluster.pass(60_000);
    for (let id = 0; id < cluster.partitions; id++) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
  });

  test.each([1, 2, 3])(
    'is all or nothing if the deciding node crashes at durable step %i, and continues after its restart',
    async (step) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      await lose(cluster, 'b', 'c');
      await cluster.pass(DEATH_MS);
      const { disk } = cluster.node('a').h;
      const last = disk.steps + step;
      disk.onStep = ({ number }) => {
        if (number === last) void cluster.node('a').lose();
      };
      requestRemoval(cluster, 'a', ['b', 'c'], { acceptLoss: true }).catch(() => {});
      await cluster.pass(5_000);
      disk.onStep = undefined;
      expect(cluster.up).toEqual([]);
      await start(cluster, 'a');
      const states = ['b', 'c'].map((name) => stateOf(cluster, 'a', name));
      if (states.includes('active')) {
        expect(states).toEqual(['active', 'active']);
        await cluster.pass(DEATH_MS);
        await removeMembers(cluster, 'a', 'b', 'c');
      }
      await cluster.pass(CLAIM_MS);
      expect(cluster.shares()).toEqual({ a: cluster.partitions });
    },
  );
});

describe('a removal may wait', () => {
  test.each(['a', 'b'])('until the lost partitions are served again, asked at %s', async (through) => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await lose(cluster, 'c', 'd');
    await cluster.pass(DEATH_MS);
    const before = cluster.time.now();
    const removal = requestRemoval(cluster, through, ['c', 'd'], { acceptLoss: true, waitMs: 10_000 });
    const { removed, claimed, lost } = await cluster.run(removal);
    expect({ removed, claimed }).toEqual({ removed: true, claimed: true });
    expect(cluster.time.now() - before).toBeLessThan(8_000);
    for (const { id } of lost) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
    const { agent } = cluster.node(through);
    for (const { id } of lost) {
      expect(['id-a', 'id-b']).toContain(agent.view.get(id as PartitionId)?.nodeId);
    }
  });

  test('but not forever: a member that must answer may have died meanwhile', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    const before = cluster.time.now();
    const removal = requestRemoval(cluster, 'a', ['c'], { acceptLoss: true, waitMs: 10_000 });
    while (stateOf(cluster, 'b', 'c') !== 'left') await cluster.pass(1);
    await lose(cluster, 'b');
    expect(await cluster.run(removal)).toMatchObject({ removed: true, claimed: false });
    expect(cluster.time.now() - before).toBeLessThan(15_000);
  });
});
