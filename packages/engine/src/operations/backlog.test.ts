import { EnqueueResult, limits, parseQueueName, reservedQueues, WhenFull } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { putSchedule } from '../schedules/test-support.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const { WHEN_FULL_DROP_NEWEST, WHEN_FULL_DROP_OLDEST } = WhenFull;
const { ENQUEUE_RESULT_CREATED: CREATED, ENQUEUE_RESULT_DROPPED: DROPPED } = EnqueueResult;
const QUEUE = 'shop#mail';

async function setUp(maxBacklog: number, whenFull?: WhenFull): Promise<EngineHarness> {
  const h = await engineHarness();
  await putSettings(h.engine, 'shop#*', { maxBacklog, ...(whenFull && { whenFull }) });
  return h;
}

const full = (limit: number, used: number) => ({
  reason: 'BACKLOG_FULL',
  retryDelayMs: 1000,
  metadata: { queue: QUEUE, limit: String(limit), used: String(used) },
});

const task = (pid: string, more: object = {}) => ({ queue: QUEUE, pid, data: `data of ${pid}`, ...more });

/** The PIDs of all available tasks, and of leased ones before them. */
const drain = async (h: EngineHarness): Promise<string[]> => pidsOf(await h.lease(QUEUE, { max: 1000 }));

describe('a queue in which so many tasks may wait', () => {
  test('refuses more, and takes some again when others are leased', async () => {
    await using h = await setUp(2);
    await h.update({ enqueue: [task('a')] });
    await expect(h.update({ enqueue: [task('b'), task('c')] })).rejects.toMatchObject(full(2, 1));
    await h.update({ enqueue: [task('b', { delay: 1000 })] });
    await expect(h.update({ enqueue: [task('c')] })).rejects.toMatchObject(full(2, 2));
    // Tasks that are there, and other queues.
    await h.update({ enqueue: [task('a'), { queue: 'shop#bills', pid: 'c' }] });
    const [a] = await h.lease(QUEUE);
    await h.update({ enqueue: [task('c')] });
    await expect(h.update({ enqueue: [task('d')] })).rejects.toMatchObject(full(2, 2));
    // A task that comes back is never refused.
    await h.update({ release: [{ queue: QUEUE, pid: 'a', token: a?.token }] });
    expect(await h.counts(QUEUE)).toEqual({ available: 2, leased: 0, delayed: 1 });
  });

  test.each([WHEN_FULL_DROP_OLDEST, WHEN_FULL_DROP_NEWEST])(
    'drops new ones whose PIDs it assigns: %i',
    async (whenFull) => {
      await using h = await engineHarness({ readMs: 2, config: { cacheBytes: 1 } });
      const run = <T>(work: Promise<T>): Promise<T> => h.clock.run(work, 1000);
      await run(putSettings(h.engine, 'shop#*', { maxBacklog: 1, whenFull }));
      // The group has records of ends, which are not in memory, also of one with a longer name, which is behind it.
      for (const queue of ['shop#a', 'shop#longer']) {
        await run(h.update({ enqueue: [{ queue, pid: 'a' }] }));
        const [leased] = await run(h.lease(queue));
        await run(h.update({ dequeue: [{ queue, pid: 'a', token: leased?.token, result: 'done' }] }));
      }
      await h.clock.advance(1000);
      const { enqueued } = await run(h.update({ enqueue: ['x', 'y', 'z'].map((data) => ({ queue: QUEUE, data })) }));
      const left = pidsOf(await run(h.lease(QUEUE, { max: 9 })));
      const kept = whenFull === WHEN_FULL_DROP_NEWEST ? enqueued[0] : enqueued[2];
      expect(left).toEqual([kept?.pid]);
    },
  );

  test('drops the oldest one also if the cache has no room for it', async () => {
    await using h = await engineHarness({ config: { cacheBytes: 1 } });
    await putSettings(h.engine, 'shop#*', { maxBacklog: 2, whenFull: WHEN_FULL_DROP_OLDEST });
    for (const pid of ['a', 'b', 'c']) await h.clock.run(h.update({ enqueue: [task(pid)] }));
    expect(pidsOf(await h.clock.run(h.lease(QUEUE, { max: 9 })))).toEqual(['b', 'c']);
  });

  test('answers while tasks of it become due all the time', async () => {
    await using h = await engineHarness({ readMs: 2 });
    await h.update({ enqueue: Array.from({ length: 500 }, (_, i) => task(`p${i}`, { delay: i + 1 })) });
    await putSettings(h.engine, QUEUE, { maxBacklog: 1 });
    await h.clock.advance(10);
    const started = h.clock.now();
    const refused = expect(h.update({ enqueue: [task('x')] })).rejects.toMatchObject({ reason: 'BACKLOG_FULL' });
    let answeredAt = Number.POSITIVE_INFINITY;
    const noting = refused.then(() => {
      answeredAt = h.clock.now();
    });
    await h.clock.advance(1000);
    await noting;
    expect(answeredAt - started).toBeLessThan(100);
  });

  test('takes an update that ends as many waiting tasks as it adds', async () => {
    await using h = await setUp(1);
    await h.update({ enqueue: [task('a')] });
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a' }], enqueue: [task('b')] });
    await h.lease(QUEUE);
    await h.update({ enqueue: [task('c')] });
    await expect(h.update({ dequeue: [{ queue: QUEUE, pid: 'b' }], enqueue: [task('d')] })).rejects.toMatchObject(
      full(1, 1),
    );
  });

  test('counts exactly among updates of one moment and of one request', async () => {
    await using h = await setUp(3);
    const many = ['a', 'b', 'c', 'd', 'e'].map((pid) => h.update({ enqueue: [task(pid)] }).then(() => pid));
    const settled = await Promise.allSettled(many);
    expect(settled.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
    ]);
    const batch = [{ dequeue: [{ queue: QUEUE, pid: 'a' }] }, { enqueue: [task('f')] }, { enqueue: [task('g')] }];
    const parts = await h.batch(batch, 'once');
    expect(parts[2]).toMatchObject(full(3, 3));
    expect(await h.batch(batch, 'once')).toEqual(parts);
    expect(await drain(h)).toEqual(['b', 'c', 'f']);
  });

  test('gives a repeated request its first outcome, whatever waits then', async () => {
    await using h = await setUp(1, WHEN_FULL_DROP_NEWEST);
    const first = { enqueue: [task('a')], id: 'first' };
    const second = { enqueue: [task('b')], id: 'second' };
    const outcomes = [await h.update(first), await h.update(second)];
    await h.crash();
    await drain(h);
    expect([await h.update(first), await h.update(second)]).toEqual(outcomes);
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 1, delayed: 0 });
  });

  test('counts an expired lease, whether or not a request has looked', async () => {
    await using h = await setUp(1);
    await h.update({ enqueue: [task('a')] });
    await h.lease(QUEUE, { for: 50 });
    await h.clock.advance(50);
    await expect(h.clock.run(h.update({ enqueue: [task('b')] }))).rejects.toMatchObject(full(1, 1));
  });

  test('takes dead letters, and keeps what waits when it may hold less', async () => {
    await using h = await setUp(2);
    await h.update({ enqueue: [task('a', { retry: { maxAttempts: 1 } })] });
    await h.update({ enqueue: [task('b', { retry: { maxAttempts: 1 } })] });
    await putSettings(h.engine, 'shop#*', { maxBacklog: 1 });
    for (const { pid, token } of await h.lease(QUEUE, { max: 2 }))
      await h.update({ release: [{ queue: QUEUE, pid, token }] });
    expect(await h.counts('shop#mail.dead')).toEqual({ available: 2, leased: 0, delayed: 0 });
  });

  test('holds back the run of a schedule until there is room', async () => {
    await using h = await setUp(1);
    await h.clock.run(putSchedule(h, { queue: QUEUE }, 'shop#hourly'));
    await h.update({ enqueue: [task('a')] });
    await expect(h.clock.run(h.engine.schedules.trigger({ group: 'shop', name: 'hourly' }))).rejects.toMatchObject(
      full(1, 1),
    );
    await h.lease(QUEUE);
    await h.clock.run(h.engine.schedules.trigger({ group: 'shop', name: 'hourly' }));
    expect(await h.counts(QUEUE)).toEqual({ available: 1, leased: 1, delayed: 0 });
  });
});

describe('a full queue that drops its newest task', () => {
  test('says so, tells those who wait, and counts it', async () => {
    await using h = await setUp(1, WHEN_FULL_DROP_NEWEST);
    const { enqueued } = await h.update({ enqueue: [task('a'), task('b'), { queue: QUEUE }] });
    expect(enqueued.map(({ result }) => result)).toEqual([CREATED, DROPPED, DROPPED]);
    expect(await h.waitFor(QUEUE, ['b'])).toMatchObject([
      { end: { outcome: 'cancelled', cancelReason: 'dropped: 1 tasks waited in the queue' } },
    ]);
    expect(h.engine.figures()).toMatchObject({ tasksDropped: 2, tasksCompleted: 0 });
    await h.crash();
    expect(await drain(h)).toEqual(['a']);
    expect((await h.update({ enqueue: [task('b'), task('c')] })).enqueued.map(({ result }) => result)).toEqual([
      CREATED,
      DROPPED,
    ]);
  });
});

test('a queue that is deleted and made again in one millisecond drops tasks with PIDs of before, and leaves one end of each', async () => {
  await using h = await setUp(1, WHEN_FULL_DROP_NEWEST);
  const three = { enqueue: [{ queue: QUEUE }, { queue: QUEUE }, { queue: QUEUE }] };
  const pidsDropped = async (): Promise<string[]> => (await h.update(three)).enqueued.slice(1).map(({ pid }) => pid);
  const dropped = [await pidsDropped()];
  await h.engine.deleteQueue(parseQueueName(QUEUE));
  dropped.push(await pidsDropped());
  expect(dropped[1]).toEqual(dropped[0]);
  const ends = () => h.counts(`shop#${reservedQueues.results}`);
  expect(await ends()).toEqual({ available: 0, leased: 0, delayed: 2 });
  await h.clock.advance(limits.defaultResultRetentionMs + 60_000);
  expect(await ends()).toEqual({ available: 0, leased: 0, delayed: 0 });
});

describe('a full queue that drops its oldest task', () => {
  test('has the latest ones, and tells those who wait', async () => {
    await using h = await setUp(2, WHEN_FULL_DROP_OLDEST);
    await h.update({ enqueue: [task('a'), task('b')] });
    const waiting = h.waitFor(QUEUE, ['a'], { wait: 1000 });
    const { enqueued } = await h.update({ enqueue: [task('c')] });
    expect(enqueued).toMatchObject([{ result: CREATED }]);
    expect(await waiting).toMatchObject([{ end: { outcome: 'cancelled' } }]);
    expect(h.engine.figures()).toMatchObject({ tasksDropped: 1 });
    expect(await drain(h)).toEqual(['b', 'c']);
  });

  test('looks at all of its tasks, also those of the same update and those that are not in memory', async () => {
    await using h = await setUp(3, WHEN_FULL_DROP_OLDEST);
    await h.update({ enqueue: ['d', 'f', 'h'].map((pid) => task(pid)) });
    await h.crash();
    await h.clock.run(h.update({ enqueue: ['a', 'g', 'e'].map((pid) => task(pid)) }));
    expect(await drain(h)).toEqual(['f', 'g', 'h']);
  });

  test('keeps leased and delayed tasks, and drops the new one if there are no others', async () => {
    await using h = await setUp(2, WHEN_FULL_DROP_OLDEST);
    await h.update({ enqueue: [task('a'), task('b', { delay: 1000 }), task('c')] });
    expect(await h.counts(QUEUE)).toEqual({ available: 1, leased: 0, delayed: 1 });
    await h.lease(QUEUE);
    await h.update({ enqueue: [task('d', { delay: 1000 }), task('e', { delay: 2000 })] });
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 1, delayed: 2 });
    expect(await h.waitFor(QUEUE, ['e'])).toMatchObject([{ end: { outcome: 'cancelled' } }]);
  });

  test('drops one for each that is added, however many wait', async () => {
    await using h = await setUp(5, WHEN_FULL_DROP_OLDEST);
    await h.update({ enqueue: ['a', 'b', 'c', 'd', 'e'].map((pid) => task(pid)) });
    await putSettings(h.engine, 'shop#*', { maxBacklog: 2, whenFull: WHEN_FULL_DROP_OLDEST });
    const outcome = await h.batch([{ enqueue: [task('f')] }, { enqueue: [task('g')] }]);
    expect(outcome).toHaveLength(2);
    expect(await drain(h)).toEqual(['c', 'd', 'e', 'f', 'g']);
  });
});
