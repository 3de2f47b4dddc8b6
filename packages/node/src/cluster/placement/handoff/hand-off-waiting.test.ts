import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { EnqueueMode, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const QUEUE = 'orders#new';

test('tasks that wait go on waiting for the same when their group moves to a node with another clock', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: 600_000 });
  await nodes.open();
  const { a, b } = nodes;
  const queue = QUEUE;
  const enqueue = [
    { queue, pid: 'a', waitFor: { signals: 2, timeoutMs: 30_000, action: 'run' as const } },
    { queue, pid: 'b', waitFor: 2 },
    { queue, pid: 'c', parent: { pid: 'b' }, orderKey: 'k' },
    { queue, pid: 'd', orderKey: 'k' },
    { queue, pid: 'e', mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, signalId: 'early' },
    { queue, pid: 'b', mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, signalId: 'x' },
  ];
  await nodes.run(a.h.update({ enqueue }));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  const lease = () => nodes.run(b.h.lease(QUEUE, { max: 9, for: 300_000 }));
  expect(pidsOf(await lease())).toEqual(['c']);
  await nodes.run(b.h.update({ enqueue: [{ queue, pid: 'b', mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, signalId: 'x' }] }));
  expect(pidsOf(await lease())).toEqual([]);
  await nodes.run(
    b.h.update({ dequeue: [{ queue, pid: 'c', result: 'done' }], enqueue: [{ queue, pid: 'e', waitFor: 1 }] }),
  );
  expect(pidsOf(await lease())).toEqual(['b', 'd', 'e']);
  await nodes.time.advance(31_000);
  expect(pidsOf(await lease())).toEqual(['a']);
});
