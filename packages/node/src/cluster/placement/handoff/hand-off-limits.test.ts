import type { PartitionId } from '@taskmaster/engine/domain';
import { limitQueues, pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const QUEUE = 'orders#new';

test('limits move with their group, and so do the leases that count in them', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: 600_000 });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(a.h.enqueue(QUEUE, ['a', 'b', 'c']));
  await nodes.run(limitQueues(a.h.engine, 'orders#*', { maxLeased: 2 }));
  expect(pidsOf(await nodes.run(a.h.lease(QUEUE, { max: 1, for: 60_000 })))).toEqual(['a']);
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  expect(await nodes.run(b.h.engine.limits.list('orders'))).toMatchObject([{ leased: 1 }]);
  expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 9, for: 300_000 })))).toEqual(['b']);
  let got: string[] | undefined;
  void b.h.lease(QUEUE, { max: 9, wait: 300_000 }).then((tasks) => {
    got = pidsOf(tasks);
  });
  await nodes.time.advance(50_000);
  expect(got).toBeUndefined();
  await nodes.time.advance(15_000);
  expect(got).toEqual(['a']);
});
