import { describe, expect, test } from 'vitest';
import {
  CLAIM_MS,
  clusterOf,
  cutOff,
  cutOffAtTake,
  expectOneHolderEach,
  fill,
  groupsOf,
  lose,
  partitionWithTasks,
  pidsIn,
  removeMembers,
  start,
  stateOf,
} from '../../testing/cluster-fixtures.ts';

/** A node that restarted looks this long for members that it does not know. */
const SEARCH_MS = 10_000;

describe('the removal of a member through a node that does not know a newer member', () => {
  test('is refused at first, because the node has just restarted and looks for members that joined meanwhile', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    await lose(cluster, 'b');
    await cluster.run(cluster.add('c').start());
    await cluster.pass(30_000);
    // Only a knows that c is a member.
    const [kept = ''] = groupsOf(cluster, cluster.node('c'));
    await lose(cluster, 'a');
    cutOff(cluster, 'c');
    await start(cluster, 'b');
    await expect(removeMembers(cluster, 'b', 'a')).rejects.toMatchObject({ reason: 'STARTING', retryDelayMs: 1_000 });
    expect(stateOf(cluster, 'b', 'a')).toBe('active');
    cluster.heal();
    await cluster.pass(8_000);
    expect(await removeMembers(cluster, 'b', 'a')).toMatchObject({ removed: true });
    await cluster.pass(CLAIM_MS);
    expect(groupsOf(cluster, cluster.node('c'))).toContain(kept);
    expect(await pidsIn(cluster, kept)).toEqual(['1']);
    expectOneHolderEach(cluster);
  });

  test.each([
    ['b', 'c'],
    ['c', 'b'],
  ])(
    'after ten seconds without reaching it: then node %s and the newer node %s serve one partition until they meet',
    async (old, newer) => {
      const cluster = await clusterOf(['a', old]);
      await fill(cluster, '1');
      const [a, b] = [cluster.node('a'), cluster.node(old)];
      const { id, epoch } = partitionWithTasks(b);
      cutOffAtTake(cluster, old);
      b.send(id, a).catch(() => {});
      await cluster.pass(1_000);
      cluster.network.onArrival = undefined;
      await cluster.run(b.lose());
      cluster.heal();
      const c = cluster.add(newer);
      await cluster.run(c.start());
      await cluster.pass(30_000);
      if (!c.partitions.holds(id)) await cluster.run(a.send(id, c));
      expect(c.partitions.holding(id)).toEqual({ kind: 'serving', epoch: epoch + 2 });
      // Only node a knows of this, and it does not return.
      await cluster.run(a.lose());
      cutOff(cluster, newer);
      await cluster.run(b.start());
      await cluster.pass(SEARCH_MS);
      expect(await removeMembers(cluster, old, 'a')).toMatchObject({ removed: true });
      await cluster.pass(100);
      expect(cluster.serving(id)).toEqual(expect.arrayContaining([old, newer]));
      expect(b.partitions.holding(id)?.epoch).toBe(epoch + 2);

      cluster.heal();
      await cluster.pass(1_000);
      expect(cluster.serving(id)).toHaveLength(1);
      // The deciding node claims what only node a held, after it has heard the newer node.
      await cluster.pass(30_000);
      expectOneHolderEach(cluster);
      await cluster.run(b.lose());
      await cluster.run(b.start());
      await cluster.pass(1_000);
      expectOneHolderEach(cluster);
    },
  );

  test('that knows it only as joining waits for its answer, also while it is down', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    // Node b learns that c joins, and is lost before it can learn that c is active.
    const c = cluster.add('c');
    const joined = c.start();
    while (stateOf(cluster, 'b', 'c') === undefined) await cluster.pass(1);
    expect(stateOf(cluster, 'b', 'c')).toBe('joining');
    await cluster.run(cluster.node('b').lose());
    await cluster.run(joined);
    await cluster.pass(30_000);
    const [kept = ''] = groupsOf(cluster, c);
    await lose(cluster, 'a', 'c');
    await start(cluster, 'b');
    await cluster.pass(SEARCH_MS + 1_000);
    await expect(removeMembers(cluster, 'b', 'a')).rejects.toMatchObject({
      reason: 'HOLDER_UNREACHABLE',
      metadata: { members: 'c' },
    });
    await start(cluster, 'c');
    await cluster.pass(1_000);
    expect(await removeMembers(cluster, 'b', 'a')).toMatchObject({ removed: true });
    await cluster.pass(CLAIM_MS);
    expect(groupsOf(cluster, c)).toContain(kept);
    expect(await pidsIn(cluster, kept)).toEqual(['1']);
    expectOneHolderEach(cluster);
  });
});
