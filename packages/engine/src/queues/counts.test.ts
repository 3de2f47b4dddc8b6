import { expect, test } from 'vitest';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

const retry = { maxAttempts: 2, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: 'd' };

async function operationsOf(h: EngineHarness, name: string) {
  const command = { kind: 'named' as const, queues: [{ group: 'g', name }] };
  const { queues } = await h.engine.queueStats(command);
  return queues[0];
}

test('failed attempts, dead letters, waits and work are counted, for the node and for the queue', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'x', retry }] });
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'r', data: 'x' }] });
  await h.clock.advance(3_000);
  const [first] = await h.lease('g#q', { for: 1_000 });
  expect(first?.pid).toBe('p');
  // The lease ends: the first attempt failed.
  await h.clock.advance(1_000);
  expect(await h.counts('g#q')).toMatchObject({ available: 2, leased: 0 });
  const [again] = await h.lease('g#q', { for: 60_000 });
  // The last attempt fails.
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: again?.token ?? 0 }] });
  // An attempt that is given back has not failed.
  const [other] = await h.lease('g#q', { for: 60_000 });
  await h.update({ release: [{ queue: 'g#q', pid: 'r', token: other?.token ?? 0, refund: true }] });
  const [done] = await h.lease('g#q', { for: 60_000 });
  await h.clock.advance(700);
  await h.update({ dequeue: [{ queue: 'g#q', pid: 'r', token: done?.token ?? 0 }] });

  const queue = await operationsOf(h, 'q');
  const waitedMs = 3_000 + 4_000 + 4_000 + 4_000;
  expect(queue?.operations).toMatchObject({ failed: 2, deadLettered: 1, leased: 4, completed: 1, workedMs: 700 });
  expect(queue?.operations.waitedMs).toBeCloseTo(waitedMs, -2);
  expect(queue?.failureRate).toBeGreaterThan(0);
  const figures = h.engine.figures();
  expect(figures).toMatchObject({ attemptsFailed: 2, tasksDeadLettered: 1, leasesExpired: 1 });
  expect(figures.worked.sumMs).toBe(700);
  expect(figures.waited.sumMs).toBeCloseTo(waitedMs, -2);
  expect((await operationsOf(h, 'd'))?.operations).toMatchObject({ failed: 0, deadLettered: 0 });
});

test('a task that is put back and one whose lease is reset have not failed', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'x', retry: { ...retry, maxAttempts: 1 } }] });
  const [task] = await h.lease('g#q', { for: 60_000 });
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token ?? 0 }] });
  const [dead] = await h.lease('g#d', { for: 60_000 });
  expect(dead?.pid).toBe('p');
  await h.engine.resetLeases({ group: 'g', name: 'd' });
  await h.update({ dequeue: [{ queue: 'g#d', pid: 'p', requeue: true }] });
  expect(h.engine.figures()).toMatchObject({ attemptsFailed: 1, tasksDeadLettered: 1 });
});
