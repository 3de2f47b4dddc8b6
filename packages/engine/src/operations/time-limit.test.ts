import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const QUEUE = 'g#q';
const OVER = { message: 'the attempt exceeded its time limit of 5000 ms', details: '' };

const add = (h: EngineHarness, more: Partial<EnqueueSpec> = {}) =>
  h.update({ enqueue: [{ queue: QUEUE, pid: 'p', timeLimit: 5000, ...more }] });

async function stateOf(h: EngineHarness, queue = QUEUE, pid = 'p'): Promise<TaskState | undefined> {
  const command = { queue: parseQueueName(queue), pids: [pid as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state;
}

/** How long the lease of the task lasts from now on, in ms. */
const left = (h: EngineHarness, task: Pick<LeasedTask, 'until'> | undefined): number =>
  (task?.until ?? 0) - h.clock.now();

async function renew(h: EngineHarness, task: LeasedTask | undefined, forMs: number): Promise<number> {
  const { renewed } = await h.update({ renew: [{ queue: QUEUE, pid: 'p', token: task?.token, for: forMs }] });
  return left(h, renewed[0]);
}

describe('the time limit of a task', () => {
  test.each([
    ['shorter', 30_000, 5000],
    ['longer', 2000, 2000],
    ['as long', 5000, 5000],
  ])('that is %s than the lease bounds it', async (_what, leaseMs, lastsMs) => {
    await using h = await engineHarness();
    await add(h);
    const [task] = await h.lease(QUEUE, { for: leaseMs });
    expect([task?.timeLimitMs, left(h, task)]).toEqual([5000, lastsMs]);
  });

  test('bounds renewals, however long and many they are', async () => {
    await using h = await engineHarness();
    await add(h);
    const [task] = await h.lease(QUEUE, { for: 2000 });
    await h.clock.advance(1000);
    expect(await renew(h, task, 2000)).toBe(2000);
    expect(await renew(h, task, 600_000)).toBe(4000);
    expect(await renew(h, task, 600_000)).toBe(4000);
    // A renewal still may make the lease shorter.
    expect(await renew(h, task, 100)).toBe(100);
    expect(await renew(h, task, 600_000)).toBe(4000);
    await h.clock.advance(4000);
    await expect(renew(h, task, 1000)).rejects.toMatchObject({ items: [{ reason: 'LEASE_EXPIRED' }] });
    const [again] = await h.lease(QUEUE);
    expect([again?.attempt, left(h, again)]).toEqual([2, 5000]);
  });

  test('is not felt by tasks without one', async () => {
    await using h = await engineHarness();
    await add(h, { timeLimit: undefined });
    const [task] = await h.lease(QUEUE, { for: 600_000 });
    expect([task?.timeLimitMs, left(h, task)]).toEqual([0, 600_000]);
    expect((await stateOf(h))?.history).toBeUndefined();
    await h.clock.advance(600_000);
    expect((await stateOf(h))?.history).toMatchObject({ given: undefined, failures: [{ error: undefined }] });
  });

  test('is named by the failure if the lease has ended because of it', async () => {
    await using h = await engineHarness();
    await add(h);
    const failures = async () => (await stateOf(h))?.history?.failures.map(({ error }) => error);
    await h.lease(QUEUE, { for: 1000 });
    await h.clock.advance(1000);
    await h.lease(QUEUE, { for: 60_000 });
    expect(await failures()).toEqual([undefined]);
    await h.clock.advance(5000);
    const [third] = await h.lease(QUEUE, { for: 1000 });
    await renew(h, third, 60_000);
    expect(await failures()).toEqual([undefined, OVER]);
    await h.clock.advance(5000);
    await h.lease(QUEUE);
    expect(await failures()).toEqual([undefined, OVER, OVER]);
  });

  test('ends attempts with backoff, then in the dead-letter queue, and those who wait learn why', async () => {
    await using h = await engineHarness({ jitter: 1 });
    await add(h, { retry: { maxAttempts: 2, backoffInitialMs: 400, backoffMaxMs: 400 } });
    await h.lease(QUEUE);
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(5000);
    expect(await h.counts(QUEUE)).toMatchObject({ available: 0, leased: 0, delayed: 1 });
    await h.clock.advance(400);
    const [last] = await h.lease(QUEUE);
    await h.clock.advance(5600);
    expect((await waiting)[0]?.end).toMatchObject({ outcome: 'dead-lettered', error: OVER.message, attempts: 2 });
    const dequeue = [{ queue: QUEUE, pid: 'p', token: last?.token }];
    await expect(h.update({ dequeue })).rejects.toMatchObject({ items: [{ reason: 'TASK_NOT_FOUND' }] });
  });

  test('does not stop a late worker from completing its task, unless another one has leased it', async () => {
    await using h = await engineHarness();
    await add(h);
    const [late] = await h.lease(QUEUE);
    await h.clock.advance(6000);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: late?.token }] });
    await add(h);
    const [later] = await h.lease(QUEUE);
    await h.clock.advance(6000);
    await h.lease(QUEUE);
    const dequeue = [{ queue: QUEUE, pid: 'p', token: later?.token }];
    await expect(h.update({ dequeue })).rejects.toMatchObject({ items: [{ reason: 'LEASE_LOST' }] });
  });

  test('wakes a request that waits', async () => {
    await using h = await engineHarness();
    await add(h);
    await h.lease(QUEUE, { for: 600_000 });
    const waiting = h.lease(QUEUE, { wait: 60_000 });
    await h.clock.advance(5100);
    expect((await waiting)[0]?.attempt).toBe(2);
  });

  test('rests in the dead-letter queue, and counts again when the task is put back', async () => {
    await using h = await engineHarness();
    await add(h, { retry: { maxAttempts: 1 } });
    const [task] = await h.lease(QUEUE);
    await h.update({ release: [{ queue: QUEUE, pid: 'p', token: task?.token }] });
    const [dead] = await h.lease(`${QUEUE}.dead`, { for: 60_000 });
    expect([dead?.timeLimitMs, left(h, dead)]).toEqual([0, 60_000]);
    expect((await stateOf(h, `${QUEUE}.dead`))?.history?.given).toEqual({ timeLimitMs: 5000, limitKey: '' });
    await h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: 'p', requeue: true }] });
    const [back] = await h.lease(QUEUE, { for: 60_000 });
    expect([back?.timeLimitMs, left(h, back)]).toEqual([5000, 5000]);
  });

  test.each([
    ['replaced', { mode: EnqueueMode.ENQUEUE_MODE_REPLACE }],
    ['collapsed into', { mode: EnqueueMode.ENQUEUE_MODE_COLLAPSE }],
    ['given another place', { key: 'k', pid: 'a', mode: EnqueueMode.ENQUEUE_MODE_REPLACE }],
  ] as const)('stays that of the task that is %s', async (_what, more) => {
    await using h = await engineHarness();
    await add(h, { key: 'key' in more ? 'k' : undefined });
    await add(h, { timeLimit: 60_000, ...more });
    expect((await h.lease(QUEUE))[0]).toMatchObject({ timeLimitMs: 5000 });
  });

  test('stays with a task that runs once more', async () => {
    await using h = await engineHarness();
    await add(h);
    const [task] = await h.lease(QUEUE);
    await add(h, { timeLimit: undefined, mode: EnqueueMode.ENQUEUE_MODE_RERUN });
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: task?.token }] });
    expect((await h.lease(QUEUE))[0]).toMatchObject({ timeLimitMs: 5000, attempt: 1 });
  });

  test('goes with a published task into every queue', async () => {
    await using h = await engineHarness();
    for (const name of ['q', 'r']) {
      const key = { topic: parseQueueName('g#t'), queue: parseQueueName(`g#${name}`) };
      await h.engine.topics.subscribe({ ...key, filter: [], ttlMs: undefined, deleteQueue: false });
    }
    await add(h, { queue: 'g#t', topic: 'g#t' });
    const leased = await h.lease([QUEUE, 'g#r'], { max: 2 });
    expect(leased.map(({ timeLimitMs }) => timeLimitMs)).toEqual([5000, 5000]);
  });

  test('is part of an update: the same request id with another limit is another request', async () => {
    await using h = await engineHarness();
    const enqueue = [{ queue: QUEUE, pid: 'p', timeLimit: 5000 }];
    await h.update({ enqueue, id: 'id' });
    await h.update({ enqueue, id: 'id' });
    for (const timeLimit of [5001, undefined]) {
      const other = h.update({ enqueue: [{ queue: QUEUE, pid: 'p', ...(timeLimit && { timeLimit }) }], id: 'id' });
      await expect(other).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    }
  });

  test('and the end of a lease at it outlast a crash, before and after a checkpoint', async () => {
    for (const waitMs of [0, 1000]) {
      await using h = await engineHarness();
      await add(h);
      const [task] = await h.lease(QUEUE, { for: 600_000 });
      await h.clock.advance(waitMs);
      await h.crash();
      expect(await renew(h, task, 600_000)).toBe((task?.until ?? 0) - h.clock.now());
      await h.crash();
      await h.clock.advance(5000);
      expect((await h.lease(QUEUE))[0]).toMatchObject({ attempt: 2, timeLimitMs: 5000 });
      expect((await stateOf(h))?.history?.failures).toMatchObject([{ attempt: 1, error: OVER }]);
    }
  });
});

describe('the time limit of settings', () => {
  test('counts for tasks that have none of their own, also for those that are in the queue already', async () => {
    await using h = await engineHarness();
    await add(h, { pid: 'a', timeLimit: undefined });
    await add(h, { pid: 'b', timeLimit: 60_000 });
    await putSettings(h.engine, 'g#*', { timeLimitMs: 3000 });
    const leased = await h.lease(QUEUE, { max: 2, for: 600_000 });
    expect(leased.map((task) => [task.timeLimitMs, left(h, task)])).toEqual([
      [3000, 3000],
      [60_000, 60_000],
    ]);
    expect((await stateOf(h, QUEUE, 'a'))?.history).toBeUndefined();
  });

  test('that is put while a task is leased ends no lease earlier, and bounds its renewals', async () => {
    await using h = await engineHarness();
    await add(h, { timeLimit: undefined });
    const [task] = await h.lease(QUEUE, { for: 20_000 });
    await putSettings(h.engine, QUEUE, { timeLimitMs: 5000 });
    await h.clock.advance(10_000);
    expect(await renew(h, task, 60_000)).toBe(10_000);
    expect(await renew(h, task, 2000)).toBe(2000);
    expect(await renew(h, task, 60_000)).toBe(2000);
    await h.clock.advance(2000);
    await h.lease(QUEUE);
    expect((await stateOf(h))?.history?.failures).toMatchObject([{ error: OVER }]);
  });

  test('that is raised or deleted lets a running attempt go on', async () => {
    await using h = await engineHarness();
    await add(h, { timeLimit: undefined });
    await putSettings(h.engine, QUEUE, { timeLimitMs: 5000 });
    const [task] = await h.lease(QUEUE, { for: 60_000 });
    await h.clock.advance(4000);
    await putSettings(h.engine, QUEUE, { timeLimitMs: 10_000 });
    expect(await renew(h, task, 60_000)).toBe(6000);
    await putSettings(h.engine, QUEUE, { leaseDurationMs: 1000 });
    expect(await renew(h, task, 60_000)).toBe(60_000);
    await h.clock.advance(60_000);
    await h.lease(QUEUE);
    expect((await stateOf(h))?.history?.failures).toMatchObject([{ error: undefined }]);
  });
});
