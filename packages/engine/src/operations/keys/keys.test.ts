import { EnqueueMode, EnqueueResult, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../../domain/ids.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '../../testing/engine-harness.ts';
import { putSettings } from '../../testing/put-settings.ts';

const QUEUE = 'shop#orders';
const { ENQUEUE_MODE_REPLACE: REPLACE, ENQUEUE_MODE_RERUN: RERUN } = EnqueueMode;

/** Enqueues a task with the key `k` at a place. */
async function enqueue(h: EngineHarness, pid: string | undefined, spec: Partial<EnqueueSpec> = {}) {
  const item = { queue: QUEUE, key: 'k', data: `at ${pid}`, ...(pid !== undefined && { pid }), ...spec };
  const [outcome] = (await h.update({ enqueue: [item] })).enqueued;
  return [outcome?.pid, outcome?.result];
}

const all = (h: EngineHarness) => h.lease(QUEUE, { max: 10 });
const { ENQUEUE_RESULT_CREATED: CREATED, ENQUEUE_RESULT_COLLAPSED: COLLAPSED } = EnqueueResult;
const { ENQUEUE_RESULT_REPLACED: REPLACED, ENQUEUE_RESULT_KEPT_OUT: KEPT_OUT } = EnqueueResult;

describe.each(['in memory', 'after a crash'])('a task with a key, %s', (where) => {
  const restart = (h: EngineHarness): Promise<void> => (where === 'in memory' ? Promise.resolve() : h.crash());

  test('is the same task at any place', async () => {
    await using h = await engineHarness();
    expect(await enqueue(h, '5')).toEqual(['5', CREATED]);
    await restart(h);
    expect(await enqueue(h, '1')).toEqual(['5', COLLAPSED]);
    expect(await enqueue(h, undefined)).toEqual(['5', COLLAPSED]);
    await expect(enqueue(h, '1', { mode: EnqueueMode.ENQUEUE_MODE_FAIL })).rejects.toMatchObject({
      reason: 'TASK_EXISTS',
    });
    expect(await h.counts(QUEUE)).toEqual({ available: 1, leased: 0, delayed: 0 });
  });

  test.each([REPLACE, RERUN])('gets another place with new data while it waits, by mode %i', async (mode) => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['3']);
    await enqueue(h, '5');
    await restart(h);
    expect(await enqueue(h, '1', { mode })).toEqual(['1', REPLACED]);
    await restart(h);
    const leased = await all(h);
    expect(leased.map(({ pid, history, data }) => [pid, history?.key, Buffer.from(data).toString()])).toEqual([
      ['1', 'k', 'at 1'],
      ['3', undefined, 'data of 3'],
    ]);
  });

  test('keeps its place while it is leased', async () => {
    await using h = await engineHarness();
    await enqueue(h, '5');
    const [task] = await all(h);
    await restart(h);
    expect(await enqueue(h, '1', { mode: RERUN })).toEqual(['5', EnqueueResult.ENQUEUE_RESULT_RERUN]);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '5', token: task?.token }] });
    await restart(h);
    expect(await all(h)).toMatchObject([{ pid: '5', history: { key: 'k' }, data: Buffer.from('at 1') }]);
  });

  test('frees its key when it is completed', async () => {
    await using h = await engineHarness();
    await enqueue(h, '5');
    const [task] = await all(h);
    await restart(h);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '5', token: task?.token }] });
    expect(await enqueue(h, '1')).toEqual(['1', CREATED]);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '1' }] });
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
  });

  test('frees its key when it goes to its dead-letter queue, and has it again when it comes back', async () => {
    await using h = await engineHarness();
    await enqueue(h, '5', { retry: { maxAttempts: 1 } });
    await h.lease(QUEUE, { for: 1000 });
    await h.clock.advance(1000);
    await restart(h);
    expect(await enqueue(h, '1')).toEqual(['1', CREATED]);
    const back = { dequeue: [{ queue: `${QUEUE}.dead`, pid: '5', requeue: true }] };
    await expect(h.update(back)).rejects.toMatchObject({ reason: 'TASK_EXISTS' });
    await h.update({ dequeue: [{ queue: QUEUE, pid: '1' }] });
    await h.update(back);
    expect(await enqueue(h, '2')).toEqual(['5', COLLAPSED]);
  });

  test('is not found after its queue was deleted', async () => {
    await using h = await engineHarness();
    await enqueue(h, '5');
    await restart(h);
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    expect(await enqueue(h, '1')).toEqual(['1', CREATED]);
    await h.clock.advance(2_000);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '1' }] });
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
  });

  test('is kept out by its key after its completion', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    await enqueue(h, '5');
    const [task] = await all(h);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '5', token: task?.token }] });
    await restart(h);
    expect((await enqueue(h, '1'))[1]).toBe(KEPT_OUT);
    expect((await enqueue(h, '1', { key: 'other' }))[1]).toBe(CREATED);
  });
});

test('a task with a key does not take the place of another task', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['1']);
  await enqueue(h, '5');
  for (const spec of [{ key: 'other' }, { mode: REPLACE }, { key: 'other', mode: REPLACE }]) {
    await expect(enqueue(h, '1', spec)).rejects.toMatchObject({ reason: 'TASK_EXISTS' });
  }
  expect(pidsOf(await all(h))).toEqual(['1', '5']);
});

test('keys are those of a queue, and one update may use them often', async () => {
  await using h = await engineHarness();
  const at = (queue: string, pid: string, mode = REPLACE) => ({ queue, pid, key: 'k', mode });
  const { enqueued } = await h.update({
    enqueue: [at('g#a', '5'), at('g#b', '7'), at('g#a', '3'), at('g#a', '4'), at('g#b', '6')],
  });
  expect(enqueued.map(({ pid, result }) => [pid, result])).toEqual([
    ['5', CREATED],
    ['7', CREATED],
    ...['3', '4', '6'].map((pid) => [pid, REPLACED]),
  ]);
  await h.crash();
  expect(pidsOf(await h.lease(['g#a', 'g#b'], { max: 10 }))).toEqual(['4', '6']);
});

test('a task that gets another place keeps its attempts, its delay and its key', async () => {
  await using h = await engineHarness();
  await enqueue(h, '5', { delay: 10_000 });
  await enqueue(h, '1', { mode: REPLACE });
  expect(await all(h)).toEqual([]);
  await h.clock.advance(10_000);
  const [task] = await all(h);
  await h.update({ release: [{ queue: QUEUE, pid: '1', token: task?.token, error: 'no route' }] });
  await enqueue(h, '9', { mode: REPLACE });
  const [seen] = await h.engine.getTasks({ queue: parseQueueName(QUEUE), pids: ['9' as Pid], includeData: false });
  expect(seen?.state).toMatchObject({
    attempts: 1,
    history: { key: 'k', failures: [{ error: { message: 'no route' } }] },
  });
});

test('a worker of another task cannot complete a task that has got its PID', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['1']);
  await enqueue(h, '5');
  const [other, own] = await all(h);
  await h.update({
    dequeue: [{ queue: QUEUE, pid: '1' }],
    release: [{ queue: QUEUE, pid: '5', token: own?.token }],
  });
  await enqueue(h, '1', { mode: REPLACE });
  const completing = h.update({ dequeue: [{ queue: QUEUE, pid: '1', token: other?.token }] });
  await expect(completing).rejects.toMatchObject({ reason: 'LEASE_LOST' });
});

test.each(['in one request', 'in two requests'])(
  'no earlier end of its PID is left when it moves on %s',
  async (how) => {
    await using h = await engineHarness({ config: { emptyQueueRetentionMs: 1000 } });
    await h.enqueue(QUEUE, ['5']);
    const [task] = await all(h);
    await h.update({ dequeue: [{ queue: QUEUE, pid: '5', token: task?.token, result: 'of another task' }] });
    // Then the node does not know any more which PIDs the queue has held.
    await h.clock.advance(2000);
    const [first, second] = ['5', '1'].map((pid) => ({ enqueue: [{ queue: QUEUE, pid, key: 'k', mode: REPLACE }] }));
    if (how === 'in one request') await h.batch([first ?? {}, second ?? {}]);
    else for (const spec of [first, second]) await h.update(spec ?? {});
    expect(await h.waitFor(QUEUE, ['5'])).toMatchObject([{ end: { outcome: 'unknown', result: undefined } }]);
  },
);

test('many tasks without PIDs may get their places in the request that enqueues them', async () => {
  await using h = await engineHarness({ readMs: 3 });
  await h.update({ dequeue: [], enqueue: [{ queue: QUEUE, pid: '\xff' }] });
  const [last] = await all(h);
  await h.update({ dequeue: [{ queue: QUEUE, pid: '\xff', token: last?.token, result: 'done' }] });
  const keys = Array.from({ length: 50 }, (_, index) => `k${index}`);
  const both = keys.flatMap((key) => [
    { queue: QUEUE, key },
    { queue: QUEUE, key, pid: key, mode: REPLACE },
  ]);
  await h.clock.run(h.update({ enqueue: both }), 1000);
  expect(pidsOf(await h.lease(QUEUE, { max: 100 }))).toEqual(keys.toSorted());
});

describe('keys of a deleted queue are forgotten', () => {
  const deleteQueue = (h: EngineHarness, queue: string) => h.engine.deleteQueue(parseQueueName(queue));
  const setUp = async (h: EngineHarness) => {
    await h.update({ enqueue: ['a', 'b', 'c'].map((key) => ({ queue: 'g#gone', pid: key, key })) });
    await h.update({ enqueue: ['a', 'b'].map((key) => ({ queue: 'g#kept', pid: key, key })) });
    expect(h.taskRows()).toBe(10);
  };

  test.each(['without a crash', 'after a crash before the sweep'])('%s', async (when) => {
    await using h = await engineHarness();
    await setUp(h);
    await deleteQueue(h, 'g#gone');
    if (when !== 'without a crash') await h.crash();
    await h.clock.advance(2_000);
    expect(h.taskRows()).toBe(4);
    const again = { queue: 'g#kept', pid: 'other', key: 'a' };
    expect((await h.update({ enqueue: [again] })).enqueued).toMatchObject([{ pid: 'a' }]);
  });

  test('with the subscription that deletes the queue', async () => {
    await using h = await engineHarness();
    await setUp(h);
    const subscription = { topic: parseQueueName('g#topic'), queue: parseQueueName('g#gone') };
    await h.engine.topics.subscribe({ ...subscription, filter: [], ttlMs: undefined, deleteQueue: true });
    await h.engine.topics.unsubscribe(subscription);
    await h.clock.advance(2_000);
    expect(h.taskRows()).toBe(4);
  });
});
