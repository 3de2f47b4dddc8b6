import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { PartitionId } from '../domain/ids.ts';
import { engineHarness } from '../testing/engine-harness.ts';

describe('counts', () => {
  test('show what was due when they were asked for, though a search for it was under way already', async () => {
    await using h = await engineHarness({ readMs: 10 });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.clock.run(h.lease('mail', { for: 100 }));
    await h.clock.run(h.lease('mail', { for: 105 }));
    await h.clock.advance(100);
    const earlier = h.counts('mail');
    await h.clock.advance(6);
    const later = h.counts('mail');
    expect(await h.clock.run(earlier)).toEqual({ available: 1, leased: 1, delayed: 0 });
    expect(await h.clock.run(later)).toEqual({ available: 2, leased: 0, delayed: 0 });
  });
});

describe('queues looked for by their group', () => {
  const everyQueue = {
    ...{ matches: undefined, minAvailable: undefined, maxAvailable: undefined, minLeased: undefined },
    ...{ maxLeased: undefined, minDelayed: undefined, maxDelayed: undefined },
  };

  test('are all the group has, or the node says that it does not hold them: never that there are none', async () => {
    await using h = await engineHarness({ clustered: true, config: { partitions: 4 } });
    const id = partitionOf('orders', 4) as PartitionId;
    await h.clock.run(h.engine.partitions.claim([{ id, epoch: 1 }]));
    await h.clock.run(h.enqueue('orders#new', ['a']));
    const elsewhere = ['a', 'b', 'c', 'd', 'e'].find((group) => partitionOf(group, 4) !== id);
    const look = (group: string | undefined) => {
      const filter = { ...everyQueue, group };
      const listed = h.engine.listQueues({ filter, limit: 10, after: undefined });
      const counted = h.engine.queueStats({ kind: 'filtered', filter, limit: 10 });
      return h.clock.run(Promise.allSettled([listed, counted]));
    };
    for (const group of ['orders', undefined]) {
      for (const found of await look(group)) expect(found).toMatchObject({ value: { queues: [{ available: 1 }] } });
    }
    for (const found of await look(elsewhere)) expect(found).toMatchObject({ reason: { reason: 'NOT_HOLDER' } });
  });
});
