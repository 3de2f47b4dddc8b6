import type { PartitionId } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import { clusterOf, cutOff, idsHeldBy, removeMembers } from '../../testing/cluster-fixtures.ts';

test('an answer waits for earlier claims, so that it includes them', async () => {
  const cluster = await clusterOf(['a', 'b']);
  const [a, b] = [cluster.node('a'), cluster.node('b')];
  const lost = idsHeldBy(b);
  await cluster.run(b.lose());
  await cluster.pass(10_000);
  await removeMembers(cluster, 'a', 'b');
  // Asks all the time: one of the questions arrives while the claim is being written.
  const ask = () =>
    a.handlers?.exchange({ clusterId: 'cluster-1', from: 'id-x', knowledge: undefined, release: undefined });
  let met = false;
  for (let i = 0; !met && i < 20_000; i++) {
    const held = a.partitions.holds(lost[0] as PartitionId);
    const answer = ask();
    let answered = false;
    void answer?.then(() => {
      answered = true;
    });
    await cluster.pass(1);
    // Answers come in the same turn, except for the one that waits.
    met = !held && !answered;
    const { knowledge } = (await cluster.run(answer ?? Promise.reject())) ?? {};
    const told = knowledge?.holders.find(({ partition }) => partition === lost[0])?.nodeId;
    expect(told).toBe(a.partitions.holds(lost[0] as PartitionId) ? 'id-a' : 'id-b');
  }
  expect(met).toBe(true);
});

describe('partitions that other nodes hold at later epochs, while this node cannot write', () => {
  async function heardInVain() {
    const cluster = await clusterOf(['a', 'b']);
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const ids = idsHeldBy(b);
    b.h.disk.space = 'none';
    const holders = ids.map((partition) => ({
      partition,
      nodeId: 'id-a',
      epoch: 90,
      queues: 0,
      tasks: 0,
      countedMs: 0,
      durableMark: 0,
    }));
    const knowledge = { members: [], holders };
    const heard = b.handlers?.exchange({ clusterId: 'cluster-1', from: 'id-a', knowledge, release: undefined });
    await cluster.run(
      Promise.resolve(heard).then(
        () => {},
        () => {},
      ),
    );
    return { cluster, a, b, ids };
  }

  test('are all released at once', async () => {
    const { b, ids } = await heardInVain();
    expect(ids.length).toBeGreaterThan(3);
    expect(ids.filter((id) => b.partitions.holds(id))).toEqual([]);
  });

  test('are released on the disk, too, when it can be written again', async () => {
    const { cluster, b, ids } = await heardInVain();
    await cluster.pass(10_000);
    b.h.disk.space = 'plenty';
    await cluster.pass(30_000);
    cutOff(cluster, 'b');
    await cluster.run(b.lose());
    void b.start();
    await cluster.pass(1_000);
    expect(ids.map((id) => b.partitions.holding(id))).toEqual(
      ids.map(() => ({ kind: 'released', to: 'id-a', epoch: 90 })),
    );
  });
});
