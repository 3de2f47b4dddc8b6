import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../../domain/ids.ts';
import { type EngineHarness, engineHarness, pidsOf, type UpdateSpec } from '../../testing/engine-harness.ts';

const QUEUE = 'shop#orders';
const { ENQUEUE_MODE_REPLACE: REPLACE, ENQUEUE_MODE_RERUN: RERUN } = EnqueueMode;

/** What the task with the key `k` has: PID, state and data. */
async function look(h: EngineHarness, key = 'k') {
  const names = { queue: parseQueueName(QUEUE), pids: [], keys: [key] };
  const [task] = await h.engine.getTasks({ ...names, includeData: true });
  const { visibility } = task?.state ?? {};
  const lease = visibility?.kind === 'hidden' ? visibility.lease : undefined;
  const state = lease === undefined ? visibility?.kind : 'leased';
  return [task?.pid, state, task?.data && Buffer.from(task.data).toString()];
}

const put = (h: EngineHarness, pid: string, mode: EnqueueMode = REPLACE) =>
  h.update({ enqueue: [{ queue: QUEUE, pid, key: 'k', data: `at ${pid}`, mode }] });
const byKey: UpdateSpec['dequeue'] = [{ queue: QUEUE, key: 'k' }];
const NOT_FOUND = ['', undefined, undefined];

describe.each([
  ['in memory', {}, () => Promise.resolve()],
  ['after a crash', {}, (h: EngineHarness) => h.crash()],
  ['from disk', { config: { cacheBytes: 1, checkpointIntervalMs: 10 } }, (h: EngineHarness) => h.clock.advance(1_000)],
] as const)('a task named by its key, %s', (_where, options, settle) => {
  test('is found wherever it is in the queue', async () => {
    await using h = await engineHarness(options);
    expect(await look(h)).toEqual(NOT_FOUND);
    await h.enqueue(QUEUE, ['3']);
    await put(h, '5');
    await settle(h);
    expect(await look(h)).toEqual(['5', 'available', 'at 5']);
    await put(h, '1');
    await settle(h);
    expect(await look(h)).toEqual(['1', 'available', 'at 1']);
    expect(await look(h, 'other')).toEqual(NOT_FOUND);
  });

  test('is shown beside tasks named by their PIDs, in the order of the request', async () => {
    await using h = await engineHarness(options);
    await h.enqueue(QUEUE, ['3']);
    await put(h, '5');
    await settle(h);
    const names = { queue: parseQueueName(QUEUE), pids: ['5', '4', '3'] as Pid[], keys: ['none', 'k'] };
    const seen = await h.engine.getTasks({ ...names, includeData: false });
    expect(seen.map(({ pid, key, state }) => [pid, key, state?.history?.key])).toEqual([
      ['5', undefined, 'k'],
      ['4', undefined, undefined],
      ['3', undefined, undefined],
      ['', 'none', undefined],
      ['5', 'k', 'k'],
    ]);
  });

  test('is removed', async () => {
    await using h = await engineHarness(options);
    await put(h, '5');
    await settle(h);
    await h.update({ dequeue: byKey });
    await settle(h);
    expect(await look(h)).toEqual(NOT_FOUND);
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 0, delayed: 0 });
    await expect(h.update({ dequeue: byKey })).rejects.toMatchObject({
      reason: 'TASK_NOT_FOUND',
      metadata: { queue: QUEUE, key: 'k' },
      items: [{ index: 0, pid: '', key: 'k' }],
    });
  });

  test('is cancelled, waiting or leased', async () => {
    await using h = await engineHarness(options);
    const cancel = { dequeue: [{ queue: QUEUE, key: 'k', cancel: 'too late' }] };
    await put(h, '5');
    await settle(h);
    await h.update(cancel);
    expect(await look(h)).toEqual(NOT_FOUND);
    expect(await h.waitFor(QUEUE, ['5'])).toMatchObject([{ end: { outcome: 'cancelled', cancelReason: 'too late' } }]);
    await put(h, '6');
    const [leased] = await h.lease(QUEUE);
    await settle(h);
    await h.update(cancel);
    const renew = [{ queue: QUEUE, pid: '6', token: leased?.token, for: 1_000 }];
    expect((await h.update({ renew })).renewed).toMatchObject([{ cancelReason: 'too late' }]);
    await h.update({ release: [{ queue: QUEUE, pid: '6', token: leased?.token }] });
    expect(await look(h)).toEqual(NOT_FOUND);
  });

  test('is rescheduled, unless it is leased', async () => {
    await using h = await engineHarness(options);
    const later = { release: [{ queue: QUEUE, key: 'k', waiting: true, delay: 10_000 }] };
    await put(h, '5');
    await settle(h);
    expect((await h.update(later)).released).toMatchObject([{ until: h.clock.now() + 10_000 }]);
    await settle(h);
    expect(await look(h)).toEqual(['5', 'hidden', 'at 5']);
    await h.update({ release: [{ queue: QUEUE, key: 'k', waiting: true }] });
    await h.lease(QUEUE);
    await settle(h);
    await expect(h.update(later)).rejects.toMatchObject({ reason: 'TASK_LEASED', items: [{ key: 'k' }] });
  });

  test('is not found any more once its last attempt has expired', async () => {
    await using h = await engineHarness(options);
    const retry = { maxAttempts: 1 };
    await h.update({ enqueue: [{ queue: QUEUE, pid: '5', key: 'k', retry }] });
    await h.lease(QUEUE, { for: 2_000 });
    await settle(h);
    expect((await look(h)).slice(0, 2)).toEqual(['5', 'leased']);
    await h.clock.advance(2_000);
    await expect(h.update({ dequeue: byKey })).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
    expect(await look(h)).toEqual(NOT_FOUND);
    expect(await h.counts(`${QUEUE}.dead`)).toMatchObject({ available: 1 });
  });
});

test('a key is looked up when the update is decided, so a task that moves while its pointer is read is not missed', async () => {
  const config = { cacheBytes: 1, checkpointIntervalMs: 10 };
  await using h = await engineHarness({ config, readMs: 100 });
  await h.clock.run(put(h, '5'));
  await h.clock.advance(1_000);
  const { coldReads } = h.engine.figures();
  const done: string[] = [];
  const moving = put(h, '1').then(() => done.push('moved'));
  await h.clock.advance(50);
  const removing = h.update({ dequeue: byKey }).then(() => done.push('removed'));
  expect([done, h.engine.figures().coldReads - coldReads]).toEqual([[], 2]);
  await h.clock.run(Promise.all([moving, removing]));
  expect(done).toEqual(['moved', 'removed']);
  expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 0, delayed: 0 });
});

test('each part of a request sees where the parts before it have put the task', async () => {
  await using h = await engineHarness();
  const at = (pid: string) => ({ enqueue: [{ queue: QUEUE, pid, key: 'k', mode: REPLACE }] });
  const results = await h.batch([
    at('5'),
    at('1'),
    { dequeue: byKey },
    { dequeue: byKey },
    at('7'),
    { dequeue: byKey },
  ]);
  expect(results.map((result) => ('reason' in result ? result.reason : 'applied'))).toEqual([
    'applied',
    'applied',
    'applied',
    'TASK_NOT_FOUND',
    'applied',
    'applied',
  ]);
  expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 0, delayed: 0 });
});

test('an update replaces the task with a key by a new one', async () => {
  await using h = await engineHarness();
  await put(h, '5');
  await h.update({ dequeue: byKey, enqueue: [{ queue: QUEUE, pid: '9', key: 'k', data: 'new' }] });
  expect(await look(h)).toEqual(['9', 'available', 'new']);
  expect(pidsOf(await h.lease(QUEUE, { max: 10 }))).toEqual(['9']);
});

test.each<[what: string, spec: UpdateSpec, index: number]>([
  ['dequeues', { dequeue: [{ queue: QUEUE, pid: '5' }, ...byKey] }, 1],
  ['dequeues in another order', { dequeue: [...byKey, { queue: QUEUE, pid: '5' }] }, 0],
  ['a dequeue and a renewal', { dequeue: byKey, renew: [{ queue: QUEUE, pid: '5', for: 1 }] }, 0],
  [
    'a dequeue and a rescheduling',
    { dequeue: [{ queue: QUEUE, pid: '5' }], release: [{ queue: QUEUE, key: 'k', waiting: true }] },
    0,
  ],
])('an update that names one task by key and PID, in %s, changes nothing', async (_what, spec, index) => {
  await using h = await engineHarness();
  await put(h, '5');
  const items = expect.arrayContaining([expect.objectContaining({ index, key: 'k', reason: 'CONFLICTING_ITEMS' })]);
  await expect(h.update(spec)).rejects.toMatchObject({ reason: 'CONFLICTING_ITEMS', items });
  expect((await look(h)).slice(0, 2)).toEqual(['5', 'available']);
});

test('an update by key that is repeated gets the first outcome, and one by another key is another request', async () => {
  await using h = await engineHarness();
  await put(h, '5');
  await h.update({ enqueue: [{ queue: QUEUE, pid: '6', key: 'other' }] });
  const remove = (key: string) => h.update({ dequeue: [{ queue: QUEUE, key }], id: 'id' });
  await remove('k');
  await h.crash();
  await remove('k');
  await expect(remove('other')).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
  expect(pidsOf(await h.lease(QUEUE, { max: 10 }))).toEqual(['6']);
});

test('a repeated request gets the refusals that it had, with the items as it names them', async () => {
  await using h = await engineHarness();
  await put(h, '5');
  const taken = { queue: QUEUE, key: 'k', mode: EnqueueMode.ENQUEUE_MODE_FAIL };
  const refusals = async () => {
    const results = await h.batch(
      [{}, { ...taken, pid: '7' }, taken].map((enqueue) => ({ enqueue: [{ queue: QUEUE, ...enqueue }] })),
      'id',
    );
    return results.flatMap((result) => ('items' in result ? [result.items] : []));
  };
  const first = await refusals();
  expect(first).toMatchObject([[{ pid: '7' }], [{ pid: '', key: 'k' }]]);
  await h.crash();
  expect(await refusals()).toEqual(first);
});

test('a leased task that is enqueued again keeps its key for the next run', async () => {
  await using h = await engineHarness();
  await put(h, '5');
  const [leased] = await h.lease(QUEUE);
  await put(h, '1', RERUN);
  await h.update({ dequeue: [{ queue: QUEUE, key: 'k', token: leased?.token }] });
  expect(await look(h)).toEqual(['5', 'available', 'at 1']);
});
