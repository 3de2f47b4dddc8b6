import type { PartitionId } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  GROUPS,
  groupsOf,
  idsHeldBy,
  pidsIn,
  removeMembers,
  reportOn,
} from '../../testing/cluster-fixtures.ts';
import type { SimNode } from '../../testing/sim-cluster.ts';

describe('a member that is removed', () => {
  test('is first only reported: which partitions would be lost, and how many tasks', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    await cluster.pass(15_000);
    const ids = idsHeldBy(cluster.node('b'));
    const tasks = groupsOf(cluster, cluster.node('b')).length;
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(DEATH_MS);
    const report = await reportOn(cluster, 'c', 'b');
    expect(report).toMatchObject({ removed: false, takenBackBy: [] });
    expect(report.lost.map(({ id }) => id)).toEqual(ids);
    expect(report.lost.every(({ counted }) => counted)).toBe(true);
    expect(report.lost.reduce((sum, lost) => sum + lost.tasks, 0)).toBe(tasks);
    expect(cluster.node('a').agent.members.get('id-b')?.state).toBe('active');
    expect(cluster.node('c').agent.members.get('id-b')?.state).toBe('active');
  });

  test.each(['a', 'c'])(
    'is removed through any node, here %s: its partitions start empty, the others stay',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      await fill(cluster, '1');
      const lostGroups = groupsOf(cluster, cluster.node('b'));
      expect(lostGroups.length).toBeGreaterThan(0);
      await cluster.run(cluster.node('b').lose());
      await cluster.pass(DEATH_MS);
      expect(await removeMembers(cluster, through, 'b')).toMatchObject({ removed: true });
      await cluster.pass(30_000);
      expectOneHolderEach(cluster);
      for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(lostGroups.includes(group) ? [] : ['1']);
      await fill(cluster, '2');
      for (const group of lostGroups) expect(await pidsIn(cluster, group)).toEqual(['2']);
      for (const { agent } of cluster.up) {
        expect(agent.members.get('id-b')).toMatchObject({ state: 'left', removedBy: 'id-a' });
        expect([...agent.view.entries()].map(([id, { nodeId }]) => [id, nodeId])).toEqual([...agent.desired.entries()]);
      }
    },
  );

  test.each([
    { lost: ['a'], removedBy: 'id-b' },
    { lost: ['a', 'b'], removedBy: 'id-c' },
  ])('is removed by the remaining member with the lowest id: $lost', async ({ lost, removedBy }) => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    for (const name of lost) await cluster.run(cluster.node(name).lose());
    await cluster.pass(DEATH_MS);
    expect(await removeMembers(cluster, 'd', ...lost)).toMatchObject({ removed: true });
    expect(cluster.node('d').agent.members.get('id-a')).toMatchObject({ removedBy });
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
  });

  test('learns of its removal when it restarts, and commits nothing', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    const [group = ''] = groupsOf(cluster, b);
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(30_000);
    await cluster.run(b.start());
    // Its own disk says that it holds the partition, until it has heard from the others.
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['2']))).rejects.toMatchObject({ name: 'Refusal' });
    await cluster.pass(30_000);
    expect(b.agent.self).toMatchObject({ state: 'left', removedBy: 'id-a' });
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['3']))).rejects.toMatchObject({ name: 'Refusal' });
    expect(await pidsIn(cluster, group)).toEqual([]);
    expectOneHolderEach(cluster);
  });

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

  test('leaves no partition without a holder, even if all others have forgotten what it held', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const held = idsHeldBy(cluster.node('a'));
    for (const name of ['a', 'b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await cluster.pass(DEATH_MS);
    const report = await reportOn(cluster, 'c', 'a');
    expect(report.lost.map(({ id }) => id)).toEqual(held);
    expect(report.lost.every(({ counted }) => counted)).toBe(false);
    await removeMembers(cluster, 'c', 'a');
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
    // That stays so when they forget once more.
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await fill(cluster, '1');
    await cluster.pass(30_000);
    for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(['1']);
  });

  test('leaves no partition without a holder that it took over from a member that has left, even if no member remembers', async () => {
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
});

describe('the removal of a member is refused', () => {
  test.each(['a', 'b'])(
    'while another member does not answer, asked at %s: that one may hold the partitions that seem lost',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      for (const name of ['c', 'd']) await cluster.run(cluster.node(name).lose());
      await cluster.pass(DEATH_MS);
      for (const ask of [reportOn, removeMembers]) {
        await expect(ask(cluster, through, 'd')).rejects.toMatchObject({
          reason: 'HOLDER_UNREACHABLE',
          metadata: { members: 'c' },
        });
      }
      await cluster.run(cluster.node('c').start());
      await cluster.pass(5_000);
      expect(await removeMembers(cluster, through, 'd')).toMatchObject({ removed: true });
    },
  );

  test('if no member would remain to take its partitions', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await cluster.run(cluster.node('b').lose());
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(DEATH_MS);
    await expect(removeMembers(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
  });
});
