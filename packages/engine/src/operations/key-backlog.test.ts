import { EnqueueResult, parseQueueName, WhenFull } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { type EngineHarness, engineHarness, type HarnessOptions, pidsOf } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const { WHEN_FULL_DROP_NEWEST, WHEN_FULL_DROP_OLDEST } = WhenFull;
const { ENQUEUE_RESULT_CREATED: CREATED, ENQUEUE_RESULT_DROPPED: DROPPED } = EnqueueResult;
const QUEUE = 'shop#mail';
const MINUTE = 60_000;

async function setUp(settings: object, options: HarnessOptions = {}): Promise<EngineHarness> {
  const h = await engineHarness(options);
  await h.clock.run(putSettings(h.engine, 'shop#*', settings));
  return h;
}

/** A task whose limit key is the letter of its PID. `z` stands for none. */
const task = (pid: string, more: object = {}) => ({
  queue: QUEUE,
  pid,
  ...(pid.startsWith('z') ? {} : { limitKey: pid[0] }),
  ...more,
});

const add = (h: EngineHarness, pids: readonly string[], more: object = {}) =>
  h.clock.run(h.update({ enqueue: pids.map((pid) => task(pid, more)) }));

const full = (limitKey: string, limit: number, used: number) => ({
  reason: 'BACKLOG_FULL',
  retryDelayMs: 1000,
  metadata: { queue: QUEUE, limitKey, limit: String(limit), used: String(used) },
});

const drain = async (h: EngineHarness): Promise<string[]> => pidsOf(await h.clock.run(h.lease(QUEUE, { max: 1000 })));

/** Restarts with all tasks in the store only. */
async function restart(h: EngineHarness): Promise<void> {
  await h.clock.advance(MINUTE);
  await h.clock.run(h.close());
  await h.open();
}

describe('a queue in which so many tasks of a key may wait', () => {
  test('refuses more of a key, and takes those of others and without a key', async () => {
    await using h = await setUp({ maxKeyBacklog: 2 });
    await add(h, ['a1', 'b1']);
    await add(h, ['a2'], { delay: MINUTE });
    await expect(add(h, ['a3'])).rejects.toMatchObject(full('a', 2, 2));
    await expect(add(h, ['b2', 'b3'])).rejects.toMatchObject(full('b', 2, 1));
    await add(h, ['a1', 'b2', 'z1', 'z2', 'z3']);
    const [a1] = await h.lease(QUEUE);
    expect(a1?.pid).toBe('a1');
    await add(h, ['a3']);
    await expect(add(h, ['a4'])).rejects.toMatchObject(full('a', 2, 2));
    // A task that comes back is never refused.
    await h.update({ release: [{ queue: QUEUE, pid: 'a1', token: a1?.token }] });
    await expect(h.update({ dequeue: [{ queue: QUEUE, pid: 'a1' }], enqueue: [task('a4')] })).resolves.toBeDefined();
    await expect(add(h, ['a5'])).rejects.toMatchObject(full('a', 2, 3));
  });

  test('drops the first ones of a key, whatever their kinds', async () => {
    await using h = await setUp({ maxKeyBacklog: 3, whenFull: WHEN_FULL_DROP_OLDEST });
    for (const [at, kind] of ['r', 's', '', 'r', 's', 't'].entries()) await add(h, [`a${at}`], { kind });
    await add(h, ['b1', 'b2'], { kind: 'r' });
    await restart(h);
    await add(h, ['a6'], { kind: 't' });
    await h.clock.run(h.lease(QUEUE, { maxPid: 'a' }));
    await add(h, ['a7', 'a8'], { kind: 'u' });
    expect(await drain(h)).toEqual(['a6', 'a7', 'a8', 'b1', 'b2']);
  });

  test('counts after a restart what is available, delayed, leased and changed meanwhile', async () => {
    await using h = await setUp({ maxKeyBacklog: 3 }, { readMs: 5 });
    await add(h, ['a1', 'a3', 'b1']);
    await add(h, ['a2'], { delay: 10 * MINUTE });
    expect(pidsOf(await h.clock.run(h.lease(QUEUE, { for: 10 * MINUTE })))).toEqual(['a1']);
    await restart(h);
    // Both wait for one count, during which tasks come and go on either side.
    const second = h.update({ enqueue: [task('a5'), task('b2'), task('c1'), task('c2')] });
    const third = h.update({ enqueue: [task('a6')] });
    const leaving = h.update({ dequeue: [{ queue: QUEUE, pid: 'b1' }] });
    const [refused] = await h.clock.run(Promise.all([third.catch((error: unknown) => error), second, leaving]));
    expect(refused).toMatchObject(full('a', 3, 3));
    await add(h, ['b3', 'b4', 'c3']);
    await expect(add(h, ['b5'])).rejects.toMatchObject(full('b', 3, 3));
    await expect(add(h, ['c4'])).rejects.toMatchObject(full('c', 3, 3));
  });

  test('counts exactly among updates of one moment, and those of a request once', async () => {
    await using h = await setUp({ maxKeyBacklog: 2 });
    const settled = await Promise.allSettled(['a1', 'a2', 'a3', 'b1'].map((pid) => h.update({ enqueue: [task(pid)] })));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
    const batch = [{ dequeue: [{ queue: QUEUE, pid: 'a1' }] }, { enqueue: [task('a4')] }, { enqueue: [task('a5')] }];
    const parts = await h.batch(batch, 'once');
    expect(parts[2]).toMatchObject(full('a', 2, 2));
    expect(await h.batch(batch, 'once')).toEqual(parts);
    expect(await drain(h)).toEqual(['a2', 'a4', 'b1']);
  });

  test('counts an expired lease, and follows a cap that is changed and removed', async () => {
    await using h = await setUp({ maxKeyBacklog: 1 });
    await add(h, ['a1']);
    await h.lease(QUEUE, { for: 50 });
    await h.clock.advance(50);
    await expect(add(h, ['a2'])).rejects.toMatchObject(full('a', 1, 1));
    await h.clock.run(putSettings(h.engine, 'shop#*', { maxKeyBacklog: 2 }));
    await add(h, ['a2']);
    await h.clock.run(putSettings(h.engine, 'shop#*', {}));
    await add(h, ['a3']);
    await h.clock.run(putSettings(h.engine, 'shop#*', { maxKeyBacklog: 2 }));
    await expect(add(h, ['a4'])).rejects.toMatchObject(full('a', 2, 3));
  });

  test('is exact after crashes, whatever happens', async () => {
    await using h = await setUp({ maxKeyBacklog: 3 }, { seed: 5 });
    const { random } = h;
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T;
    let refusals = 0;
    for (let step = 0; step < 200; step++) {
      const roll = random.next();
      if (roll < 0.6) {
        const key = pick(['a', 'b']);
        const before = await h.clock.run(
          h.engine.peekTasks({ queue: parseQueueName(QUEUE), kind: 'head', limit: 99, includeData: false }),
        );
        const delayed = await h.clock.run(
          h.engine.peekTasks({ queue: parseQueueName(QUEUE), kind: 'delayed', limit: 99, includeData: false }),
        );
        const waiting = [...before, ...delayed].filter(({ pid }) => pid.startsWith(key)).length;
        const more = random.next() < 0.3 ? { delay: 500 } : {};
        const error = await add(h, [`${key}${1000 + step}`], more).then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        if (error !== undefined) refusals++;
        expect(error === undefined, `step ${step}: ${waiting} wait`).toBe(waiting < 3);
      } else if (roll < 0.8) await h.clock.run(h.lease(QUEUE, { max: 2, for: 700 }));
      else if (roll < 0.95) await h.clock.advance(200);
      else await h.crash();
    }
    expect(refusals).toBeGreaterThan(10);
  });
});

describe('a queue that drops tasks of a full key', () => {
  test('drops the newest one, also if the queue has room for no other', async () => {
    await using h = await setUp({ maxKeyBacklog: 1, maxBacklog: 3, whenFull: WHEN_FULL_DROP_NEWEST });
    const { enqueued } = await add(h, ['a1', 'b1', 'a2', 'z1', 'z2']);
    expect(enqueued.map(({ result }) => result)).toEqual([CREATED, CREATED, DROPPED, CREATED, DROPPED]);
    expect(await h.waitFor(QUEUE, ['a2'])).toMatchObject([
      { end: { outcome: 'cancelled', cancelReason: 'dropped: 1 tasks waited in the queue with the key a' } },
    ]);
    expect(await drain(h)).toEqual(['a1', 'b1', 'z1']);
  });

  test('drops its oldest one, in memory and after a restart, and no task of another key', async () => {
    await using h = await setUp({ maxKeyBacklog: 2, whenFull: WHEN_FULL_DROP_OLDEST });
    await add(h, ['a3', 'a4', 'b1', 'b2', 'z1']);
    await add(h, ['a5', 'b0']);
    await restart(h);
    await add(h, ['a2', 'a6', 'a7']);
    expect(h.engine.figures()).toMatchObject({ tasksDropped: 3 });
    expect(await drain(h)).toEqual(['a6', 'a7', 'b1', 'b2', 'z1']);
  });

  test('drops one for each that is added, however many', async () => {
    await using h = await setUp({ maxKeyBacklog: 20, whenFull: WHEN_FULL_DROP_OLDEST });
    const pids = (from: number, count: number) => Array.from({ length: count }, (_, at) => `a${from + at}`);
    await add(h, pids(1000, 50));
    await add(h, pids(2000, 50));
    expect(await drain(h)).toEqual(pids(2030, 20));
  });

  test('drops the oldest task of all keys when the queue is full', async () => {
    await using h = await setUp({ maxBacklog: 4, whenFull: WHEN_FULL_DROP_OLDEST });
    await add(h, ['b1', 'a1', 'z1', 'c1']);
    await restart(h);
    await add(h, ['a2', 'z2']);
    expect(await drain(h)).toEqual(['b1', 'c1', 'z1', 'z2']);
  });
});
