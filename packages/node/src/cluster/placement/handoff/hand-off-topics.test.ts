import { type PartitionId, type Subscription, withHeaders } from '@taskmaster/engine/domain';
import type { EngineHarness } from '@taskmaster/engine/testing';
import { parseQueueName, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const TOPIC = 'orders#new';
const AHEAD_MS = 600_000;

const subscribe = (h: EngineHarness, queue: string, more: Partial<Subscription> = {}) =>
  h.engine.topics.subscribe({
    topic: parseQueueName(TOPIC),
    queue: parseQueueName(`orders#${queue}`),
    filter: [],
    ttlMs: undefined,
    deleteQueue: false,
    ...more,
  });

async function publish(h: EngineHarness, pid: string, headers: Record<string, string> = {}): Promise<string[]> {
  const { data, headerBytes } = withHeaders(headers, Buffer.from(pid));
  const item = { queue: TOPIC, topic: TOPIC, pid, data: Buffer.from(data).toString(), headerBytes };
  const { enqueued } = await h.update({ enqueue: [item] });
  return (enqueued[0]?.published ?? []).map(({ queue }) => queue.name);
}

test('subscriptions move with their group: with their filters, and with as much time to live as they had', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(subscribe(a.h, 'all'));
  await nodes.run(subscribe(a.h, 'some', { filter: [{ kind: 'in', key: 'tenant', values: ['acme'] }] }));
  await nodes.run(subscribe(a.h, 'short', { ttlMs: 20_000, deleteQueue: true }));
  await nodes.run(subscribe(a.h, 'renewed', { ttlMs: 5_000 }));
  await nodes.time.advance(2_000);
  await nodes.run(subscribe(a.h, 'renewed', { ttlMs: 30_000 }));
  expect(await nodes.run(publish(a.h, 'x', { tenant: 'acme' }))).toEqual(['all', 'renewed', 'short', 'some']);
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  expect(await nodes.run(publish(b.h, 'y'))).toEqual(['all', 'renewed', 'short']);
  await nodes.time.advance(10_000);
  expect(await nodes.run(publish(b.h, 'z', { tenant: 'acme' }))).toEqual(['all', 'renewed', 'short', 'some']);
  await nodes.time.advance(10_000);
  expect(await nodes.run(publish(b.h, 'last'))).toEqual(['all', 'renewed']);
  await nodes.time.advance(2_000);
  // It was deleted by the node that holds it now.
  expect(await nodes.run(b.h.counts('orders#short'))).toMatchObject({ available: 0 });
  expect(await nodes.run(b.h.counts('orders#renewed'))).toMatchObject({ available: 4 });
});
