import { EnqueueMode, EnqueueResult, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import { Family } from '../ports/store.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const QUEUE = 'g#q';
const DEAD = { maxAttempts: 3, deadLetterQueue: 'late' };

const add = (h: EngineHarness, more: Partial<EnqueueSpec> = {}) =>
  h.update({ enqueue: [{ queue: QUEUE, pid: 'p', startWithin: 5000, ...more }] });

async function stateOf(h: EngineHarness, queue = QUEUE, pid = 'p') {
  const command = { queue: parseQueueName(queue), pids: [pid as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state;
}

const reasonOf = (at: number): string => `not started by ${new Date(at).toISOString()}`;
const pidsOf = (tasks: readonly { readonly pid: Pid }[]): Pid[] => tasks.map(({ pid }) => pid);

describe('a task that must start by an instant', () => {
  test.each([1, 10])('is leased before it, and not from it on (%i at once)', async (max) => {
    await using h = await engineHarness();
    await add(h);
    await add(h, { pid: 'q', startWithin: undefined });
    await add(h, { pid: 'a', startWithin: 4999 });
    await h.clock.advance(4999);
    expect(pidsOf(await h.lease(QUEUE, { max: 1 }))).toEqual(['p']);
    await add(h, { pid: 'b', startWithin: 1 });
    await h.clock.advance(1);
    expect(pidsOf(await h.lease(QUEUE, { max }))).toEqual(['q']);
    expect(await h.counts(QUEUE)).toMatchObject({ available: 0, leased: 2 });
  });

  test('is counted if it has ended within its update', async () => {
    await using h = await engineHarness();
    const item = { queue: QUEUE, pid: 'p' };
    await h.update({ enqueue: [{ ...item, startBy: h.clock.now() - 1 }, item] });
    expect(pidsOf(await h.lease(QUEUE))).toEqual(['p']);
    expect(h.engine.figures()).toMatchObject({ startsMissed: 1, tasksEnqueued: 2, tasksLeased: 1 });
  });

  test('ends without a look, and those who wait for it learn why', async () => {
    await using h = await engineHarness();
    await add(h);
    const due = h.clock.now() + 5000;
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(5600);
    expect((await waiting)[0]?.end).toMatchObject({ outcome: 'cancelled', cancelReason: reasonOf(due), at: due });
    expect(h.engine.figures().startsMissed).toBe(1);
    expect((await h.waitFor(QUEUE, ['p']))[0]?.end).toMatchObject({
      outcome: 'cancelled',
      cancelReason: reasonOf(due),
    });
  });

  test('goes to the dead-letter queue that its policy names, and comes back without the instant', async () => {
    await using h = await engineHarness();
    await add(h, { retry: DEAD });
    const due = h.clock.now() + 5000;
    await h.clock.advance(5000);
    const dead = await stateOf(h, 'g#late');
    expect(h.engine.figures()).toMatchObject({ startsMissed: 1, attemptsFailed: 0 });
    expect(dead).toMatchObject({ attempts: 0, history: { startBy: undefined, origin: { queue: 'q' } } });
    expect(dead?.history?.failures).toMatchObject([{ at: due, attempt: 0, error: { message: reasonOf(due) } }]);
    expect((await h.waitFor(QUEUE, ['p']))[0]?.end).toMatchObject({ outcome: 'dead-lettered', error: reasonOf(due) });
    await h.update({ dequeue: [{ queue: 'g#late', pid: 'p', requeue: true }] });
    await h.clock.advance(60_000);
    expect((await h.lease(QUEUE))[0]?.attempt).toBe(1);
  });

  test('goes to the dead-letter queue that the settings of its queue name', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { deadLetterQueue: 'g#late' });
    await add(h, { retry: 'by settings' });
    await h.clock.advance(5000);
    expect(await stateOf(h, 'g#late')).toBeDefined();
  });

  test('is retried as any other once it was leased', async () => {
    await using h = await engineHarness();
    await add(h);
    const [task] = await h.lease(QUEUE, { for: 60_000 });
    await h.clock.advance(10_000);
    await h.update({ release: [{ queue: QUEUE, pid: 'p', token: task?.token, refund: true }] });
    await h.clock.advance(10_000);
    expect(pidsOf(await h.lease(QUEUE))).toEqual(['p']);
    expect((await stateOf(h))?.history).toBeUndefined();
  });

  test('is gone for every call from its instant on, whether or not anything has looked', async () => {
    await using h = await engineHarness();
    await add(h);
    await h.clock.advance(5000);
    const dequeue = [{ queue: QUEUE, pid: 'p' }];
    await expect(h.update({ dequeue })).rejects.toMatchObject({ items: [{ reason: 'TASK_NOT_FOUND' }] });
    await add(h);
    await h.clock.advance(5000);
    const { enqueued } = await add(h, { mode: EnqueueMode.ENQUEUE_MODE_FAIL });
    expect(enqueued[0]?.pid).toBe('p');
    expect(await h.counts(QUEUE)).toMatchObject({ available: 1 });
  });

  test.each([EnqueueMode.ENQUEUE_MODE_COLLAPSE, EnqueueMode.ENQUEUE_MODE_REPLACE, EnqueueMode.ENQUEUE_MODE_RERUN])(
    'keeps its instant when it is enqueued again (mode %i)',
    async (mode) => {
      await using h = await engineHarness();
      await add(h);
      await h.clock.advance(3000);
      await add(h, { mode, startWithin: 60_000 });
      await h.clock.advance(2000);
      expect(await stateOf(h)).toBeUndefined();
    },
  );

  test('ends at its instant while it is delayed, also by a later call', async () => {
    await using h = await engineHarness();
    await add(h, { delay: 1000 });
    await h.update({ release: [{ queue: QUEUE, pid: 'p', waiting: true, delay: 60_000 }] });
    await h.clock.advance(4999);
    expect(await h.counts(QUEUE)).toMatchObject({ delayed: 1 });
    await h.clock.advance(1);
    expect(await h.counts(QUEUE)).toMatchObject({ delayed: 0, available: 0 });
  });

  test('ends at once if the instant is past', async () => {
    await using h = await engineHarness();
    await add(h, { startBy: h.clock.now() - 1 });
    expect(await h.lease(QUEUE)).toEqual([]);
    expect((await h.waitFor(QUEUE, ['p']))[0]?.end.outcome).toBe('cancelled');
  });

  test.each([
    ['again', { pid: 'p' }, 'p'],
    ['by its key', { pid: 'x', key: 'k' }, 'x'],
    ['with another key', { pid: 'p', key: 'other' }, 'p'],
  ])('ends before the next task of the same update that names it %s', async (_how, again, pid) => {
    await using h = await engineHarness();
    const startBy = h.clock.now();
    const first = { queue: QUEUE, pid: 'p', key: 'k', startBy, retry: DEAD };
    const updated = h.update({ enqueue: [first, { queue: QUEUE, ...again }] });
    const created = EnqueueResult.ENQUEUE_RESULT_CREATED;
    expect((await updated).enqueued.map(({ result }) => result)).toEqual([created, created]);
    expect(pidsOf(await h.lease(QUEUE, { max: 9 }))).toEqual([pid]);
    expect((await stateOf(h, 'g#late'))?.history?.failures).toMatchObject([{ error: { message: reasonOf(startBy) } }]);
  });

  test('is gone for the next part of the same request', async () => {
    await using h = await engineHarness();
    const startBy = h.clock.now();
    const enqueue = [{ queue: QUEUE, pid: 'p', startBy }];
    const batch = h.batch([{ enqueue }, { dequeue: [{ queue: QUEUE, pid: 'p', cancel: 'no' }] }, { enqueue }]);
    const [first, second, third] = await batch;
    expect(second).toMatchObject({ items: [{ reason: 'TASK_NOT_FOUND' }] });
    expect([first, third]).toMatchObject(Array(2).fill({ enqueued: [{ pid: 'p' }] }));
    expect((await h.waitFor(QUEUE, ['p']))[0]?.end).toMatchObject({ cancelReason: reasonOf(startBy) });
  });

  test.each(['crash', 'lose after a checkpoint'] as const)('ends in time after a %s', async (how) => {
    await using h = await engineHarness();
    await add(h, { retry: DEAD });
    await add(h, { pid: 'q', startWithin: 20_000 });
    await add(h, { pid: 'r' });
    await h.lease(QUEUE, { maxPid: 'p', for: 60_000 });
    if (how !== 'crash') await h.clock.advance(3000);
    await h.crash();
    await h.clock.advance(6000);
    expect(await h.counts(QUEUE)).toMatchObject({ available: 1, leased: 1 });
    await h.crash();
    const waiting = h.waitFor(QUEUE, ['q'], { wait: 60_000 });
    await h.clock.advance(21_000);
    expect((await waiting)[0]?.end.outcome).toBe('cancelled');
    expect((await h.waitFor(QUEUE, ['r']))[0]?.end.outcome).toBe('cancelled');
  });

  test('no longer makes calls about other queues wait when those from before a restart have started', async () => {
    await using h = await engineHarness({ readMs: 5 });
    const run = <T>(work: Promise<T>): Promise<T> => h.clock.run(work);
    await run(add(h, { startWithin: 60_000 }));
    h.lose();
    await h.open();
    await run(add(h, { pid: 'q', startWithin: 60_000 }));
    const timeOf = async (): Promise<number> => {
      // A search finds the one, and sees when the other is due. Then it has to look again.
      await run(add(h, { pid: 'r', startWithin: 100 }));
      await run(add(h, { pid: 's', startWithin: undefined, delay: 1750 }));
      await h.clock.advance(1750);
      const from = h.clock.now();
      await run(h.update({ enqueue: [{ queue: 'g#other', pid: 'x' }] }));
      const took = h.clock.now() - from;
      await h.clock.advance(1000);
      return took;
    };
    // The task of before may have to go to the other queue.
    expect(await timeOf()).toBeGreaterThan(0);
    const [task] = await run(h.lease(QUEUE, { maxPid: 'p' }));
    await run(h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: task?.token }] }));
    await run(h.update({ dequeue: [{ queue: QUEUE, pid: 's' }] }));
    expect(await timeOf()).toBe(0);
  });

  test('leaves why it has not run for an hour after the node is back', async () => {
    await using h = await engineHarness();
    await add(h);
    const due = h.clock.now() + 5000;
    h.lose();
    await h.clock.advance(2 * 3_600_000);
    await h.open();
    await h.clock.advance(600_000);
    expect((await h.waitFor(QUEUE, ['p']))[0]?.end).toMatchObject({ cancelReason: reasonOf(due), at: due });
  });

  test('leaves nothing in the index of due tasks when it was leased before a crash', async () => {
    await using h = await engineHarness();
    await add(h, { startWithin: 60_000 });
    await h.clock.advance(3000);
    await h.lease(QUEUE);
    await h.crash();
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
    await h.clock.advance(5000);
    expect(h.disk.rowsOf(Family.due)).toEqual([]);
  });

  test('goes to its own dead-letter queue after a restart, whatever became of the leases of its queue', async () => {
    await using h = await engineHarness();
    await add(h, { startWithin: 5200, retry: DEAD });
    await add(h, { pid: 'a', startWithin: undefined });
    const [task] = await h.lease(QUEUE, { for: 60_000 });
    await h.crash();
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: task?.token }] });
    await h.clock.advance(5200);
    expect(pidsOf(await h.lease('g#late'))).toEqual(['p']);
  });

  test('does not hide leased tasks from samples', async () => {
    await using h = await engineHarness();
    const enqueue = Array.from({ length: 300 }, (_, i) => ({ queue: QUEUE, pid: `b${i}`, startWithin: 10_000 }));
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a' }, ...enqueue] });
    await h.lease(QUEUE, { for: 30_000 });
    await h.clock.advance(2000);
    const sample = {
      queue: parseQueueName(QUEUE),
      kind: 'leased',
      limit: 1,
      after: undefined,
      includeData: false,
    } as const;
    expect(pidsOf(await h.engine.peekTasks(sample))).toEqual(['a']);
  });

  test('holds back no other task, however many are too late', async () => {
    await using h = await engineHarness();
    const enqueue = Array.from({ length: 3000 }, (_, i) => ({ queue: QUEUE, pid: `a${i}`, startWithin: 10 }));
    await h.update({ enqueue });
    await add(h, { startWithin: undefined });
    await h.clock.advance(10);
    expect(pidsOf(await h.lease(QUEUE, { wait: 1000 }))).toEqual(['p']);
    await h.clock.advance(600);
    expect(await h.counts(QUEUE)).toMatchObject({ available: 0, leased: 1 });
  });
});
