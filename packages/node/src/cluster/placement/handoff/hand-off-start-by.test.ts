import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const QUEUE = 'orders#new';

test('tasks that must start by an instant keep their time when their group moves to a node with another clock', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: 600_000 });
  await nodes.open();
  const { a, b } = nodes;
  const enqueue = [
    { queue: QUEUE, pid: 'a', startWithin: 30_000 },
    { queue: QUEUE, pid: 'b', startWithin: 30_000 },
    { queue: QUEUE, pid: 'c', startWithin: 90_000 },
  ];
  await nodes.run(a.h.update({ enqueue }));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  await nodes.time.advance(20_000);
  expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 1, for: 300_000 })))).toEqual(['a']);
  await nodes.time.advance(15_000);
  expect(await nodes.run(b.h.waitFor(QUEUE, ['b']))).toMatchObject([{ end: { outcome: 'cancelled' } }]);
  expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 9, for: 300_000 })))).toEqual(['c']);
});
