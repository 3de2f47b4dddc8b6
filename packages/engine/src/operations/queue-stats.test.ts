import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { PartitionId } from '../domain/ids.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

describe('counts', () => {
  test('include tasks that became due after a search that is still running had started', async () => {
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

describe('the age of the oldest task', () => {
  const HOUR = 3600 * 1000;
  const ageIn = async (h: EngineHarness, name: string): Promise<number> => {
    const command = { kind: 'named' as const, queues: [{ group: '', name }] };
    const { queues } = await h.clock.run(h.engine.queueStats(command));
    return queues[0]?.oldestAgeMs ?? Number.NaN;
  };
  /** Events of the node during the test. */
  const ways: [string, (h: EngineHarness) => Promise<void>][] = [
    ['', async () => {}],
    [', over a crash', (h) => h.crash()],
  ];

  test.each(ways)('is counted from when it became due%s', async (_, pass) => {
    await using h = await engineHarness();
    await h.clock.run(h.update({ enqueue: [{ queue: 'mail', pid: 'a', delay: HOUR }] }));
    await h.clock.advance(HOUR - 1000);
    await pass(h);
    expect(await ageIn(h, 'mail')).toBe(0);
    await h.clock.advance(61_000);
    await pass(h);
    expect(await ageIn(h, 'mail')).toBeCloseTo(60_000, -3);
  });

  test.each(ways)('continues during a lease and restarts after a release with a delay%s', async (_, pass) => {
    await using h = await engineHarness();
    await h.clock.run(h.enqueue('mail', ['a']));
    const leaseAt = async (ms: number): Promise<number | undefined> => {
      await h.clock.advance(ms);
      const [task] = await h.clock.run(h.lease('mail', { for: HOUR }));
      return task?.token;
    };
    const token = await leaseAt(60_000);
    await h.clock.advance(60_000);
    await pass(h);
    expect(await ageIn(h, 'mail')).toBeCloseTo(120_000, -3);
    await h.clock.run(h.update({ release: [{ queue: 'mail', pid: 'a', token, delay: 0 }] }));
    expect(await ageIn(h, 'mail')).toBeCloseTo(120_000, -3);
    const again = await leaseAt(0);
    await h.clock.run(h.update({ release: [{ queue: 'mail', pid: 'a', token: again, delay: HOUR, refund: true }] }));
    await pass(h);
    expect(await ageIn(h, 'mail')).toBe(0);
    await h.clock.advance(HOUR + 30_000);
    expect(await ageIn(h, 'mail')).toBeCloseTo(30_000, -3);
    const last = await leaseAt(0);
    await h.clock.run(h.update({ dequeue: [{ queue: 'mail', pid: 'a', token: last }] }));
    expect(await ageIn(h, 'mail')).toBe(0);
  });

  test('restarts after a backoff, too', async () => {
    await using h = await engineHarness();
    const retry = { maxAttempts: 0, backoffInitialMs: HOUR, backoffMaxMs: HOUR };
    await h.clock.run(h.update({ enqueue: [{ queue: 'mail', pid: 'a', retry }] }));
    await h.clock.run(h.lease('mail', { for: 60_000 }));
    await h.clock.advance(59_000);
    expect(await ageIn(h, 'mail')).toBeCloseTo(59_000, -3);
    await h.clock.advance(1_001);
    expect(await ageIn(h, 'mail')).toBe(0);
    await h.clock.advance(HOUR + 10_000);
    expect(await ageIn(h, 'mail')).toBeGreaterThan(0);
    expect(await ageIn(h, 'mail')).toBeLessThan(HOUR + 10_000);
  });
});

const everyQueue = {
  matches: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

describe('operations on a queue', () => {
  const operationsIn = async (h: EngineHarness) => {
    const filter = { ...everyQueue, group: undefined };
    const listed = h.engine.listQueues({ filter, limit: 10, after: undefined, includeEmpty: true });
    return (await h.clock.run(listed)).queues.map(({ operations }) => operations);
  };

  test('are counted until the queue is gone, and from zero in the next queue of the same name', async () => {
    await using h = await engineHarness({ config: { emptyQueueRetentionMs: 1_000 } });
    await h.clock.run(h.enqueue('mail', ['a', 'b', 'c']));
    const [first, second] = await h.clock.run(h.lease('mail', { max: 2 }));
    const dequeue = [first, second].map((task) => ({ queue: 'mail', pid: task?.pid ?? '', token: task?.token }));
    await h.clock.run(h.update({ dequeue }));
    expect(await operationsIn(h)).toMatchObject([{ enqueued: 3, leased: 2, completed: 2 }]);
    await h.clock.run(h.update({ dequeue: [{ queue: 'mail', pid: 'c' }] }));
    expect(await operationsIn(h)).toMatchObject([{ enqueued: 3, leased: 2, completed: 3 }]);
    await h.clock.advance(5_000);
    expect(await operationsIn(h)).toMatchObject([]);
    await h.clock.run(h.enqueue('mail', ['d']));
    expect(await operationsIn(h)).toMatchObject([{ enqueued: 1, leased: 0, completed: 0 }]);
  });

  test('are counted from zero after a crash', async () => {
    await using h = await engineHarness();
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.crash();
    await h.clock.run(h.enqueue('mail', ['c']));
    expect(await operationsIn(h)).toMatchObject([{ enqueued: 1, leased: 0, completed: 0 }]);
  });
});

describe('queues of a group', () => {
  test('are all returned, or the node refuses with NOT_HOLDER; it never returns an empty list instead', async () => {
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
