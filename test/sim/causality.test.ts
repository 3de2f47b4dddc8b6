import { engineHarness, pidsOf } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';

describe('a slow disk', () => {
  const READ_MS = 1000;
  const CHECKPOINT_MS = 600;
  const slow = { readMs: READ_MS, writeMs: 1, syncMs: 1 };

  test('makes an operation wait for its own reads, never for those of another operation', async () => {
    await using h = await engineHarness(slow);
    await h.clock.run(h.enqueue('mail', ['a', 'b', 'c']));
    // Behind a checkpoint a restart knows only the counts.
    await h.clock.advance(CHECKPOINT_MS);
    await h.crash();
    const startedAt = h.clock.now();
    // `a` is cold: its state must be read. A new task needs no read.
    let coldEnded = false;
    const cold = h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] }).then(() => {
      coldEnded = true;
    });
    await h.clock.run(h.enqueue('mail', ['z']));
    await h.clock.run(h.update({ enqueue: [{ queue: 'other' }] }));
    await h.clock.run(h.lease('other'));
    await h.clock.run(h.update({ enqueue: [{ queue: 'g#mail', pid: 'a' }] }));
    expect(h.clock.now() - startedAt).toBeLessThan(READ_MS / 10);
    expect(coldEnded).toBe(false);
    await h.clock.run(cold);
    expect(await h.clock.run(h.counts('mail'))).toEqual({ available: 3, leased: 0, delayed: 0 });
  });

  test('shows an operation the changes that were made during its read', async () => {
    await using h = await engineHarness(slow);
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.clock.advance(CHECKPOINT_MS);
    await h.crash();
    const first = h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] });
    await h.clock.advance(READ_MS / 2);
    const second = h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] }).catch((error: unknown) => error);
    await h.clock.run(first);
    expect(await h.clock.run(second)).toMatchObject({ reason: 'TASK_NOT_FOUND' });
    expect(pidsOf(await h.clock.run(h.lease('mail', { max: 2 })))).toEqual(['b']);
  });
});

test('100,000 tasks pass through a cache of 1 MB', async () => {
  const CACHE_BYTES = 1024 * 1024;
  const TASKS = 100_000;
  const AT_ONCE = 1000;
  await using h = await engineHarness({ config: { cacheBytes: CACHE_BYTES, checkpointIntervalMs: 60_000 } });
  const data = 'x'.repeat(100);
  for (let at = 0; at < TASKS; at += AT_ONCE) {
    const enqueue = Array.from({ length: AT_ONCE }, (_, i) => ({ queue: 'mail', pid: `${1_000_000 + at + i}`, data }));
    await h.update({ enqueue });
    expect(h.engine.figures().cacheBytes).toBeLessThanOrEqual(CACHE_BYTES);
  }
  for (let at = 0; at < TASKS / 20; at += AT_ONCE) {
    const leased = await h.lease('mail', { max: AT_ONCE });
    expect(leased[0]?.pid).toBe(`${1_000_000 + at}`);
    expect(leased).toHaveLength(AT_ONCE);
    expect(h.engine.figures().cacheBytes).toBeLessThanOrEqual(CACHE_BYTES);
  }
}, 120_000);

test('one enqueue wakes exactly one of 10,000 waiting requests: the first', async () => {
  const WAITERS = 10_000;
  await using h = await engineHarness();
  const served: number[] = [];
  for (let waiter = 0; waiter < WAITERS; waiter++) {
    void h.lease('mail', { wait: 60_000 }).then((tasks) => tasks.length > 0 && served.push(waiter));
  }
  expect(h.engine.figures().waiters).toBe(WAITERS);
  for (let task = 0; task < 5; task++) {
    await h.enqueue('mail', [`${task}`]);
    await h.clock.advance(1);
    expect(served).toEqual(Array.from({ length: task + 1 }, (_, i) => i));
    expect(h.engine.figures().waiters).toBe(WAITERS - task - 1);
  }
  const { atoms } = h.engine.figures();
  expect(atoms, 'one enqueue and one lease for each round').toBe(10);
  await h.clock.advance(60_000);
  expect(h.engine.figures().waiters).toBe(0);
});
