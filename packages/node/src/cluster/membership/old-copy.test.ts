import type { EngineConfig } from '@taskmaster/engine';
import { encodeAcceptedLoss, metaKeys, type PartitionId } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  groupsOf,
  lose,
  partitionWithTasks,
  pidsIn,
  removeMembers,
} from '../../testing/cluster-fixtures.ts';
import { SimCluster, type SimNode } from '../../testing/sim-cluster.ts';

/** Stops the node and starts it with a copy of its disk from before `between`. */
async function startOlder(cluster: SimCluster, node: SimNode, between: () => Promise<void>): Promise<void> {
  await cluster.run(node.stop());
  const older = node.h.disk.copy();
  await cluster.run(node.start());
  await cluster.pass(DEATH_MS);
  await between();
  await cluster.run(node.stop());
  node.h.disk.restore(older);
  await cluster.run(node.start());
}

const isBarred = async (cluster: SimCluster, node: SimNode): Promise<boolean> => {
  let barred = false;
  void node.agent.barred.then(() => {
    barred = true;
  });
  await cluster.pass(1);
  return barred;
};

/** A cluster in which `c` has left and the others hold its partitions. */
async function olderWithLess(): Promise<{ cluster: SimCluster; b: SimNode }> {
  const cluster = await clusterOf(['a', 'b', 'c']);
  await fill(cluster, '1');
  const b = cluster.node('b');
  await startOlder(cluster, b, async () => {
    await cluster.run(cluster.node('c').agent.drain());
    await lose(cluster, 'c');
    await cluster.pass(30_000);
    await fill(cluster, '2');
  });
  return { cluster, b };
}

test('a node that is started with an older copy of its disk serves nothing and says what to do', async () => {
  const { cluster, b } = await olderWithLess();
  const groups = groupsOf(cluster, b);
  expect(groups.length).toBeGreaterThan(0);
  for (const group of groups) {
    // Called at once, before it has heard from any member.
    await expect(cluster.run(b.h.lease(`${group}#q`))).rejects.toMatchObject({ reason: 'OLD_DATA' });
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['3']))).rejects.toMatchObject({ reason: 'OLD_DATA' });
  }
  expect(await isBarred(cluster, b)).toBe(true);
  expect(b.agent.problem).toContain('older copy');
  expect(b.agent.mayCommit).toBe(false);
  // Further starts change nothing.
  await cluster.run(b.stop());
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(true);

  // The advice of the log.
  await cluster.run(b.stop());
  await cluster.pass(DEATH_MS);
  expect(await removeMembers(cluster, 'a', 'b')).toMatchObject({ removed: true });
  await cluster.pass(30_000);
  expectOneHolderEach(cluster);
  for (const group of groups) expect(await pidsIn(cluster, group)).toEqual([]);
});

test('a node with an older copy takes no partitions: they would be lost when it is removed', async () => {
  const { cluster, b } = await olderWithLess();
  expect(await isBarred(cluster, b)).toBe(true);
  const a = cluster.node('a');
  const { id } = partitionWithTasks(a);
  await expect(cluster.run(a.send(id, b))).rejects.toMatchObject({ reason: 'OLD_DATA' });
  expect(cluster.serving(id)).toEqual(['a']);
});

test('a node that is started with a copy from before it left the cluster serves nothing, ends and says what to do', async () => {
  const log = keptLog();
  const cluster = await clusterOf(['a', 'b', 'c'], { log: () => log });
  await fill(cluster, '1');
  const c = cluster.node('c');
  const [group = ''] = groupsOf(cluster, c);
  await startOlder(cluster, c, () => cluster.run(c.agent.drain()));
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, c)).toBe(true);
  expect(log.lines).toContainEqual(
    expect.objectContaining({ level: 'error', message: expect.stringContaining('start it with --join') }),
  );
  await expect(cluster.run(c.h.enqueue(`${group}#q`, ['2']))).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  await fill(cluster, '2');
});

test('a node that leaves is not taken for one with an older copy', async () => {
  const cluster = await clusterOf(['a', 'b', 'c']);
  const c = cluster.node('c');
  await cluster.run(c.agent.drain());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, c)).toBe(false);
});

test('a node that learns while it serves that its disk is an older copy stops serving', async () => {
  const cluster = await clusterOf(['a', 'b', 'c']);
  await fill(cluster, '1');
  const [a, b] = [cluster.node('a'), cluster.node('b')];
  const { id } = partitionWithTasks(a);
  const [own = ''] = groupsOf(cluster, b);
  const queue = `${own}#q`;
  await startOlder(cluster, b, async () => {
    // Node c does not see that the partition arrives.
    cutOff(cluster, 'c');
    await cluster.run(a.send(id, b));
    await cluster.run(b.h.enqueue(queue, ['2']));
    cluster.cut.clear();
    cutOff(cluster, 'a');
  });
  await cluster.pass(DEATH_MS);
  // No member that it reaches knows of the newer data.
  expect(await isBarred(cluster, b)).toBe(false);
  await cluster.run(b.h.enqueue(queue, ['3']));
  cluster.cut.clear();
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(true);
  await expect(cluster.run(b.h.enqueue(queue, ['4']))).rejects.toMatchObject({ reason: 'OLD_DATA' });
  await expect(cluster.run(b.h.lease(queue))).rejects.toMatchObject({ reason: 'OLD_DATA' });
});

test('a node that is started with the newest copy of its disk continues', async () => {
  const cluster = await clusterOf(['a', 'b', 'c']);
  await fill(cluster, '1');
  const [a, b] = [cluster.node('a'), cluster.node('b')];
  const { id } = partitionWithTasks(a);
  await cluster.run(a.send(id, b));
  await cluster.run(b.stop());
  const newest = b.h.disk.copy();
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  await cluster.run(b.stop());
  b.h.disk.restore(newest);
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  await fill(cluster, '2');
  expectOneHolderEach(cluster);
  expect(cluster.serving(partitionOf('group-0', cluster.partitions) as PartitionId)).toHaveLength(1);
});

/** Long enough for a checkpoint and until every other member has heard of it. */
const HEARD_MS = 20_000;

async function clusterWithTasks(): Promise<{ cluster: SimCluster; b: SimNode; queue: string }> {
  const cluster = await clusterOf(['a', 'b', 'c']);
  await fill(cluster, '1');
  const b = cluster.node('b');
  return { cluster, b, queue: `${groupsOf(cluster, b)[0] ?? ''}#q` };
}

test('a node whose disk lacks acknowledged tasks serves nothing, even if no partition has come to it since', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  await startOlder(cluster, b, async () => {
    await cluster.run(b.h.enqueue(queue, ['2']));
    await cluster.pass(HEARD_MS);
  });
  await expect(cluster.run(b.h.lease(queue))).rejects.toMatchObject({ reason: 'OLD_DATA' });
  expect(await isBarred(cluster, b)).toBe(true);
});

test('members that know of the data only through others notice the older copy, too', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  await startOlder(cluster, b, async () => {
    cutOff(cluster, 'b', ['c']);
    await cluster.run(b.h.enqueue(queue, ['2']));
    await cluster.pass(HEARD_MS);
    cluster.cut.clear();
    await cluster.run(cluster.node('a').stop());
  });
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(true);
});

test('a node continues with an older copy that lacks nothing, and alone, when no other member knows of newer data', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  await startOlder(cluster, b, () => cluster.pass(HEARD_MS));
  await cluster.run(b.h.enqueue(queue, ['2']));
  expect(await isBarred(cluster, b)).toBe(false);

  const one = await clusterOf(['a']);
  const a = one.node('a');
  await startOlder(one, a, async () => {
    await fill(one, '1');
    await one.pass(HEARD_MS);
  });
  await fill(one, '2');
  expect(await isBarred(one, a)).toBe(false);
});

test('other members see a node alive that continues with an older copy, after many starts with the newest one', async () => {
  const { cluster, b } = await clusterWithTasks();
  await startOlder(cluster, b, async () => {
    for (let i = 0; i < 5; i++) {
      await cluster.run(b.stop());
      await cluster.run(b.start());
      await cluster.pass(HEARD_MS);
    }
  });
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  const { membership } = cluster.node('a');
  expect(membership.peers().find(({ nodeId }) => nodeId === 'id-b')).toMatchObject({ alive: true });
});

test('a node continues after a power loss that lost tasks acknowledged before their fsync', async () => {
  const cluster = new SimCluster();
  // Only a flush makes tasks durable.
  const config: Partial<EngineConfig> = {
    durability: { kind: 'relaxed', flushIntervalMs: 3_600_000 },
    checkpointIntervalMs: 3_600_000,
  };
  for (const name of ['a', 'b', 'c']) {
    await cluster.run(cluster.add(name, { config }).start());
    await cluster.pass(30_000);
  }
  const b = cluster.node('b');
  const [group = ''] = groupsOf(cluster, b);
  const pids = Array.from({ length: 50 }, (_, i) => `${i}`);
  for (const pid of pids) await cluster.run(b.h.enqueue(`${group}#q`, [pid]));
  await cluster.pass(HEARD_MS);
  await cluster.run(b.lose());
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  expect((await cluster.run(b.h.lease(`${group}#q`, { max: 50 }))).length).toBeLessThan(50);
});

test('a node continues after a failed fsync', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  await cluster.pass(HEARD_MS);
  b.h.disk.failSync();
  await expect(cluster.run(b.h.enqueue(queue, ['2']))).rejects.toMatchObject({ reason: 'STORE_FAILED' });
  await cluster.pass(HEARD_MS);
  await cluster.run(b.lose());
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  await cluster.run(b.h.enqueue(queue, ['3']));
});

test('a node continues after a partition has left it and returned', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  const id = partitionOf(queue.split('#')[0] ?? '', cluster.partitions) as PartitionId;
  await cluster.pass(HEARD_MS);
  await cluster.run(b.send(id, cluster.node('a')));
  await cluster.pass(HEARD_MS);
  await cluster.run(b.stop());
  await cluster.run(b.start());
  await cluster.pass(HEARD_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  await fill(cluster, '2');
  expectOneHolderEach(cluster);
});

test('a node continues with less data if an operator accepted the loss, and still notices older copies', async () => {
  const { cluster, b, queue } = await clusterWithTasks();
  const putRow = { family: Family.meta, key: metaKeys.acceptedLoss };
  await cluster.run(b.stop());
  const older = b.h.disk.copy();
  await cluster.run(b.start());
  await cluster.run(b.h.enqueue(queue, ['2']));
  await cluster.pass(HEARD_MS);
  await cluster.run(b.stop());
  b.h.disk.restore([...older, { ...putRow, value: encodeAcceptedLoss(b.h.clock.now()) }]);
  await cluster.run(b.start());
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(false);
  await cluster.run(b.h.enqueue(queue, ['3']));
  await cluster.pass(HEARD_MS);
  await startOlder(cluster, b, async () => {
    await cluster.run(b.h.enqueue(queue, ['4']));
    await cluster.pass(HEARD_MS);
  });
  await cluster.pass(DEATH_MS);
  expect(await isBarred(cluster, b)).toBe(true);
});
