import { expect, test } from 'vitest';
import type { PartitionId } from '../domain/ids.ts';
import { clusterOf, giveUp, idsHeldBy } from '../testing/cluster-fixtures.ts';

test('an answer waits for the claims before it, so that it speaks of them', async () => {
  const cluster = await clusterOf(['a', 'b']);
  const [a, b] = [cluster.node('a'), cluster.node('b')];
  const lost = idsHeldBy(b);
  await cluster.run(b.lose());
  await cluster.pass(10_000);
  await giveUp(cluster, 'a', 'b');
  // All the time: some of it meets the claim while that is being written.
  const ask = () => a.handlers?.exchange({ clusterId: 'cluster-1', from: 'id-x', knowledge: undefined });
  let met = false;
  for (let i = 0; !met && i < 20_000; i++) {
    const held = a.partitions.holds(lost[0] as PartitionId);
    const answer = ask();
    let answered = false;
    void answer?.then(() => {
      answered = true;
    });
    await cluster.pass(1);
    // Answers come in the turn they are asked in, but for the one that waits.
    met = !held && !answered;
    const { knowledge } = (await cluster.run(answer ?? Promise.reject())) ?? {};
    const told = knowledge?.holders.find(({ partition }) => partition === lost[0])?.nodeId;
    expect(told).toBe(a.partitions.holds(lost[0] as PartitionId) ? 'id-a' : 'id-b');
  }
  expect(met).toBe(true);
});
