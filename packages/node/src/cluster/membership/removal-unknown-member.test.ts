import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  cutOffAtTake,
  expectOneHolderEach,
  fill,
  partitionWithTasks,
  removeMembers,
} from '../../testing/cluster-fixtures.ts';

/** A node that restarted looks this long for members that it does not know. */
const SEARCH_MS = 10_000;

describe('a member is removed through a node that does not know a newer member, and cannot reach it for ten seconds', () => {
  test.each([
    ['b', 'c'],
    ['c', 'b'],
  ])('then node %s and the newer node %s serve one partition, until they reach each other', async (old, newer) => {
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
  });
});
