import type { PartitionId } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  GROUPS,
  giveUp,
  groupsOf,
  idsHeldBy,
  pidsIn,
  reportOn,
} from '../../testing/cluster-fixtures.ts';
import type { SimNode } from '../../testing/sim-cluster.ts';

describe('a member that is given up', () => {
  test('is first only reported on: what would be lost, and how much it was', async () => {
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
    'is given up through any node, here %s: its partitions begin anew, the rest stays',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      await fill(cluster, '1');
      const lostGroups = groupsOf(cluster, cluster.node('b'));
      expect(lostGroups.length).toBeGreaterThan(0);
      await cluster.run(cluster.node('b').lose());
      await cluster.pass(DEATH_MS);
      expect(await giveUp(cluster, through, 'b')).toMatchObject({ removed: true });
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

  test('is given up by the next lowest when it was the lowest itself', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(DEATH_MS);
    expect(await giveUp(cluster, 'c', 'a')).toMatchObject({ removed: true });
    expect(cluster.node('c').agent.members.get('id-a')).toMatchObject({ removedBy: 'id-b' });
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
  });

  test('learns of it when it comes back, and commits nothing', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    const [group = ''] = groupsOf(cluster, b);
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'b');
    await cluster.pass(30_000);
    await cluster.run(b.start());
    // Its own disk says that it holds the partition, until it has heard of the others.
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['2']))).rejects.toMatchObject({ name: 'Refusal' });
    await cluster.pass(30_000);
    expect(b.agent.self).toMatchObject({ state: 'left', removedBy: 'id-a' });
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['3']))).rejects.toMatchObject({ name: 'Refusal' });
    expect(await pidsIn(cluster, group)).toEqual([]);
    expectOneHolderEach(cluster);
  });

  test('leaves partitions whose lease tokens go on growing where they begin anew', async () => {
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
    await giveUp(cluster, 'a', 'b');
    await cluster.pass(30_000);
    const next = cluster.holderOf(group);
    if (!next) throw new Error(`nobody serves ${group}`);
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

  test('leaves nothing behind that nobody knows of, though all others have forgotten what it held', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const held = idsHeldBy(cluster.node('a'));
    for (const name of ['a', 'b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await cluster.pass(DEATH_MS);
    const report = await reportOn(cluster, 'c', 'a');
    expect(report.lost.map(({ id }) => id)).toEqual(held);
    expect(report.lost.every(({ counted }) => counted)).toBe(false);
    await giveUp(cluster, 'c', 'a');
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
    // So it stays when they forget once more.
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await fill(cluster, '1');
    await cluster.pass(30_000);
    for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(['1']);
  });

  test('leaves nothing behind that it took over from a member that has left, though nobody remembers', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => cluster.node(name)) as [SimNode, SimNode, SimNode, SimNode];
    const before = idsHeldBy(c);
    // One does not see it happen; the one that does forgets where partitions are when it is started again.
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

    const { removed, lost } = await giveUp(cluster, 'a', 'b');
    expect(removed).toBe(true);
    expect(lost.map(({ id }) => id)).toEqual(expect.arrayContaining(ids));
    await cluster.pass(60_000);
    for (let id = 0; id < cluster.partitions; id++) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
  });
});

describe('giving a member up is refused', () => {
  test('while it is alive', async () => {
    const cluster = await clusterOf(['a', 'b']);
    for (const through of ['a', 'b']) {
      await expect(giveUp(cluster, through, 'b')).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
    }
    expect(cluster.node('a').agent.members.get('id-b')?.state).toBe('active');
  });

  test('while it answers, though gossip takes it for dead', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const { membership } = cluster.node('a');
    membership.peers = () => [];
    await expect(giveUp(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
  });

  test.each(['a', 'b'])(
    'while another one does not answer, asked at %s: it may hold what seems lost',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      for (const name of ['c', 'd']) await cluster.run(cluster.node(name).lose());
      await cluster.pass(DEATH_MS);
      for (const give of [reportOn, giveUp]) {
        await expect(give(cluster, through, 'd')).rejects.toMatchObject({
          reason: 'HOLDER_UNREACHABLE',
          metadata: { members: 'c' },
        });
      }
      await cluster.run(cluster.node('c').start());
      await cluster.pass(5_000);
      expect(await giveUp(cluster, through, 'd')).toMatchObject({ removed: true });
    },
  );

  test('for whoever is unknown, left already, or the last', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await expect(giveUp(cluster, 'a', 'x')).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(DEATH_MS);
    await giveUp(cluster, 'a', 'b');
    await expect(giveUp(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    await expect(giveUp(cluster, 'a', 'a')).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
  });

  test('where nobody would be left to take its partitions', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await cluster.run(cluster.node('b').lose());
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(DEATH_MS);
    await expect(giveUp(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
  });
});
