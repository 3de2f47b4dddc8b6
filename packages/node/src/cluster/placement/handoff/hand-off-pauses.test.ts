import type { PartitionId } from '@taskmaster/engine/domain';
import { type EngineHarness, pauseQueues, pidsOf, resumeQueues } from '@taskmaster/engine/testing';
import { parseQueueName, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const QUEUE = 'orders#new';
const AHEAD_MS = 600_000;

const pauseOf = async (h: EngineHarness, queue: string) =>
  (await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] })).queues[0]?.pause?.message;

test('pauses move with their group: those with an end last as long as they would have, whatever the clocks say', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(a.h.enqueue(QUEUE, ['a']));
  await nodes.run(a.h.enqueue('orders#old', ['b']));
  await nodes.run(pauseQueues(a.h.engine, 'orders#n*', { reason: 'until noon', durationMs: 60_000 }));
  await nodes.run(pauseQueues(a.h.engine, 'orders#old', { reason: 'for good' }));
  await nodes.time.advance(10_000);
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  expect(await nodes.run(pauseOf(b.h, QUEUE))).toMatchObject({ queues: 'orders#n*', reason: 'until noon' });
  const request = b.h.lease(QUEUE, { wait: 300_000 });
  let got: string[] | undefined;
  void request.then((tasks) => {
    got = pidsOf(tasks);
  });
  await nodes.time.advance(45_000);
  expect([await nodes.run(b.h.lease([QUEUE, 'orders#old'])), got]).toEqual([[], undefined]);
  await nodes.time.advance(6_000);
  expect(got).toEqual(['a']);
  await nodes.time.advance(300_000);
  expect(await nodes.run(pauseOf(b.h, 'orders#old'))).toMatchObject({ reason: 'for good', pausedBy: 'ann' });
  await nodes.run(resumeQueues(b.h.engine, 'orders#old'));
  expect(pidsOf(await nodes.run(b.h.lease('orders#old')))).toEqual(['b']);
});
