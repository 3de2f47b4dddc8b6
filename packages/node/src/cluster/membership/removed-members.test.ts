import type { PartitionId } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import {
  CLAIM_MS,
  clusterOf,
  cutOff,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  groupsOf,
  lose,
  pidsIn,
  queueOf,
  removeMembers,
  stateOf,
} from '../../testing/cluster-fixtures.ts';
import type { SimCluster } from '../../testing/sim-cluster.ts';

test('a removed member that restarts learns of its removal, and commits nothing', async () => {
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

describe('members that were removed together and restart together', () => {
  /** Nodes b and c are removed and restart. Resolves when they have exchanged knowledge. */
  async function comeBack(cluster: SimCluster): Promise<void> {
    await cluster.run(Promise.all(['b', 'c'].map((name) => cluster.node(name).start())));
    await cluster.pass(3_000);
  }

  async function expectNothingCommitted(cluster: SimCluster, queues: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, queue] of Object.entries(queues)) {
      const refused = expect.stringMatching(/STARTING|MEMBER_LEFT|NOT_HOLDER/);
      const enqueued = cluster.run(cluster.node(name).h.enqueue(queue, ['2']));
      await expect(enqueued).rejects.toMatchObject({ reason: refused });
      expect(cluster.node(name).agent.mayCommit).toBe(false);
    }
  }

  test('do not confirm each other, because they are not more than half of the members they know', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const queues = { b: queueOf(cluster, cluster.node('b')), c: queueOf(cluster, cluster.node('c')) };
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const name of ['b', 'c']) cutOff(cluster, name, ['a', 'd']);
    await comeBack(cluster);
    await cluster.pass(120_000);
    await expectNothingCommitted(cluster, queues);
    cluster.heal();
    await cluster.pass(5_000);
    for (const name of ['b', 'c']) expect(stateOf(cluster, name, name)).toBe('left');
    expectOneHolderEach(cluster);
  });

  test('serve after ten seconds if they are more than half, until they learn of the removal: what they acknowledged is lost', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const queues = { b: queueOf(cluster, cluster.node('b')), c: queueOf(cluster, cluster.node('c')) };
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const name of ['b', 'c']) cutOff(cluster, name, ['a']);
    await comeBack(cluster);
    await expectNothingCommitted(cluster, queues);
    await cluster.pass(DEATH_MS);
    await cluster.run(cluster.node('b').h.enqueue(queues.b, ['2']));
    cluster.heal();
    // They find each other again within a second.
    await cluster.pass(1_000);
    await expectNothingCommitted(cluster, queues);
    for (const name of ['b', 'c']) expect(stateOf(cluster, name, name)).toBe('left');
    expectOneHolderEach(cluster);
  });

  test('do not confirm each other if they were removed one after the other, the second before it had heard of the first removal', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const queues = { b: queueOf(cluster, cluster.node('b')), c: queueOf(cluster, cluster.node('c')) };
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    cluster.network.onArrival = ({ from, what, way }) => {
      // Node b has answered; it is lost before it hears of the decision.
      if (from === 'b' && what === 'inventory' && way === 'answer') cutOff(cluster, 'b', ['a']);
    };
    await removeMembers(cluster, 'a', 'c');
    cluster.network.onArrival = undefined;
    expect(stateOf(cluster, 'b', 'c')).toBe('active');
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(CLAIM_MS);
    cutOff(cluster, 'c', ['a']);
    await comeBack(cluster);
    await expectNothingCommitted(cluster, queues);
    cluster.heal();
    await cluster.pass(3_000);
    await expectNothingCommitted(cluster, queues);
    expectOneHolderEach(cluster);
  });

  test('do not confirm each other after a pause', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { latencyMs: 12 });
    const queues = { b: queueOf(cluster, cluster.node('b')), c: queueOf(cluster, cluster.node('c')) };
    const stood = ['b', 'c'].map((name) => cluster.node(name));
    for (const { h } of stood) h.clock.standStill();
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const { h } of stood) h.clock.goOn();
    for (let passed = 0; passed < 200; passed++) {
      for (let id = 0; id < cluster.partitions; id++) {
        const committing = cluster.serving(id as PartitionId).filter((name) => cluster.node(name).agent.mayCommit);
        expect(committing).toEqual(['a']);
      }
      await cluster.pass(5);
    }
    await expectNothingCommitted(cluster, queues);
  });
});
