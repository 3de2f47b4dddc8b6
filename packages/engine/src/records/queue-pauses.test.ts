import { limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';
import { type EngineHarness, engineHarness, type LeaseSpec, pidsOf } from '../testing/engine-harness.ts';
import { pauseQueues, resumeQueues } from '../testing/pause-queues.ts';

const QUEUE = 'shop#mail';
const MINUTE = 60_000;
const GROUP: LeaseSpec = { patterns: [{ group: 'shop' }] };

const leased = async (h: EngineHarness, queues: string | string[] = QUEUE, spec: LeaseSpec = {}) =>
  pidsOf(await h.lease(queues, { max: 9, ...spec }));

/** A lease request that waits, and what it has got so far. */
function waiting(h: EngineHarness, queues: string | string[] = QUEUE, spec: LeaseSpec = {}) {
  const got: string[] = [];
  const note = (tasks: readonly LeasedTask[]): void => void got.push(...(tasks.length > 0 ? pidsOf(tasks) : ['none']));
  const answered = h.lease(queues, { max: 9, wait: 10 * MINUTE, ...spec }).then(note);
  return { got, answered };
}

const pauseOf = async (h: EngineHarness, queue = QUEUE) =>
  (await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] })).queues[0]?.pause?.message;

test('pauses are counted until they end, also those of queues without tasks, and after a crash', async () => {
  await using h = await engineHarness();
  const counted = (): number => h.engine.figures().pauses;
  await pauseQueues(h.engine, QUEUE);
  await pauseQueues(h.engine, 'bank#*', { until: (h.clock.now() + MINUTE) as Instant });
  await pauseQueues(h.engine, 'bank#*', { until: (h.clock.now() + 2 * MINUTE) as Instant });
  expect(counted()).toBe(2);
  await h.crash();
  expect(counted()).toBe(2);
  await h.clock.advance(2 * MINUTE);
  expect(counted()).toBe(1);
  await resumeQueues(h.engine, QUEUE);
  expect(counted()).toBe(0);
});

describe('a paused queue', () => {
  test('gives no tasks to requests, which wait if they may, and serves them in order at once when it is resumed', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    await pauseQueues(h.engine, QUEUE);
    expect(await leased(h)).toEqual([]);
    const first = waiting(h, QUEUE, { max: 2 });
    const second = waiting(h);
    await h.enqueue(QUEUE, ['c']);
    await h.clock.advance(MINUTE);
    expect([first.got, second.got]).toEqual([[], []]);
    expect(await resumeQueues(h.engine, QUEUE)).toEqual({ resumed: true, pauses: [] });
    await Promise.all([first.answered, second.answered]);
    expect([first.got, second.got]).toEqual([['a', 'b'], ['c']]);
    expect(await pauseOf(h)).toBeUndefined();
  });

  test('is not paused until an instant that has passed', async () => {
    await using h = await engineHarness();
    await expect(pauseQueues(h.engine, QUEUE, { until: h.clock.now() })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
      metadata: { field: 'until_unix_ms' },
    });
    expect(await pauseOf(h)).toBeUndefined();
  });

  test('ends a wait without tasks at its deadline', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE);
    const request = waiting(h, QUEUE, { wait: 1000 });
    await h.clock.advance(1000);
    expect(request.got).toEqual(['none']);
  });

  test('leaves other queues of a request and of a pattern alone', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await h.enqueue('shop#bills', ['b']);
    // The pattern knows both queues before one is paused.
    expect(await leased(h, [], { ...GROUP, max: 1, maxPid: '0' })).toEqual([]);
    await pauseQueues(h.engine, QUEUE);
    expect(await leased(h, [QUEUE, 'shop#bills'])).toEqual(['b']);
    await h.enqueue('shop#bills', ['c']);
    expect(h.engine.queuesWithTasks({ queues: [] } as never, 9)).toEqual([]);
    expect(await leased(h, [], GROUP)).toEqual(['c']);
    const request = waiting(h, [], GROUP);
    await h.enqueue(QUEUE, ['d']);
    await h.clock.advance(1000);
    expect(request.got).toEqual([]);
    await resumeQueues(h.engine, QUEUE);
    await request.answered;
    expect(request.got).toEqual(['a', 'd']);
  });

  test('goes on with enqueues, renewals, completions, releases, delays, expiries and dead letters', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    const retry = { maxAttempts: 1 };
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'dead', retry }] });
    const tasks = await h.lease(QUEUE, { max: 9, for: 1000 });
    const [a, b] = tasks;
    await pauseQueues(h.engine, QUEUE);
    const { renewed } = await h.update({ renew: [{ queue: QUEUE, pid: 'a', token: a?.token, for: 5000 }] });
    expect(renewed).toEqual([{ until: h.clock.now() + 5000 }]);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: a?.token }] });
    await h.update({ release: [{ queue: QUEUE, pid: 'b', token: b?.token, delay: 500 }] });
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'later', delay: 2000 }] });
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 2, delayed: 2 });
    const deadLetters = waiting(h, 'shop#mail.dead');
    await h.clock.advance(2000);
    expect(deadLetters.got).toEqual(['dead']);
    expect(await h.counts(QUEUE)).toEqual({ available: 3, leased: 0, delayed: 0 });
    expect(await leased(h)).toEqual([]);
    await resumeQueues(h.engine, QUEUE);
    expect(await leased(h)).toEqual(['b', 'c', 'later']);
  });

  test('gives its tasks to no request that comes while it is read from the disk', async () => {
    await using h = await engineHarness({ readMs: 5, config: { cacheBytes: 1 } });
    await h.clock.run(h.enqueue(QUEUE, ['a']));
    await h.crash();
    const request = waiting(h, QUEUE, { wait: 1000 });
    await h.clock.run(pauseQueues(h.engine, QUEUE));
    await h.clock.advance(1000);
    expect(request.got).toEqual(['none']);
    await h.clock.run(resumeQueues(h.engine, QUEUE));
    expect(await h.clock.run(leased(h))).toEqual(['a']);
  });
});

describe('a pause', () => {
  test('says why, by whom, since when and until when, and a second one changes all but since when', async () => {
    await using h = await engineHarness();
    const since = h.clock.now();
    await pauseQueues(h.engine, QUEUE, { reason: 'the shop is down' });
    const first = { queues: QUEUE, reason: 'the shop is down', pausedBy: 'ann', sinceUnixMs: since, untilUnixMs: 0 };
    expect(await pauseOf(h)).toEqual(first);
    await h.clock.advance(1000);
    const { message } = await pauseQueues(h.engine, QUEUE, { reason: '', by: 'bob', durationMs: MINUTE });
    const second = { queues: QUEUE, reason: '', pausedBy: 'bob', sinceUnixMs: since, untilUnixMs: since + 61_000 };
    expect(message).toEqual(second);
    expect(await pauseOf(h)).toEqual(second);
    await pauseQueues(h.engine, QUEUE);
    await h.clock.advance(10 * MINUTE);
    expect(await pauseOf(h)).toMatchObject({ reason: 'maintenance', untilUnixMs: 0 });
  });

  test.each([
    ['a duration', () => ({ durationMs: MINUTE })],
    ['an instant', (now: number) => ({ until: (now + MINUTE) as Instant })],
  ])(
    'ends by itself after %s: then at once for new requests, and within 100 ms for those that wait',
    async (_how, end) => {
      await using h = await engineHarness();
      await h.enqueue(QUEUE, ['a', 'b', 'c']);
      await pauseQueues(h.engine, QUEUE, end(h.clock.now()));
      await h.clock.advance(30);
      const request = waiting(h, QUEUE, { max: 1 });
      const pattern = waiting(h, [], { ...GROUP, max: 1 });
      await h.clock.advance(MINUTE - 31);
      expect([await leased(h), request.got, pattern.got]).toEqual([[], [], []]);
      await h.clock.advance(1);
      expect(await pauseOf(h)).toBeUndefined();
      await h.clock.advance(100);
      expect([request.got, pattern.got]).toEqual([['a'], ['b']]);
      expect(await leased(h)).toEqual(['c']);
      // Its record has gone, too.
      expect(h.taskRows()).toBe(3);
    },
  );

  test('lasts as long as it should, however the system clock is set', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE, { durationMs: 10 * MINUTE });
    const request = waiting(h);
    h.clock.stepWall(60 * MINUTE);
    await h.clock.advance(9 * MINUTE);
    expect([await leased(h), request.got]).toEqual([[], []]);
    h.clock.stepWall(-120 * MINUTE);
    await h.clock.advance(2 * MINUTE);
    expect(request.got).toEqual(['a']);
  });

  test('that is over lets a request without a wait have the tasks in that very ms, also by a pattern', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    await pauseQueues(h.engine, 'shop#*', { durationMs: 1050 });
    expect(await leased(h, [], GROUP)).toEqual([]);
    await h.clock.advance(1050);
    expect(await leased(h, QUEUE, { max: 1 })).toEqual(['a']);
    expect(await leased(h, [], GROUP)).toEqual(['b']);
  });

  test('begins anew after it has ended, whether or not its record has gone', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE, { durationMs: 1050 });
    await h.clock.advance(1050);
    const { message } = await pauseQueues(h.engine, QUEUE);
    expect(message.sinceUnixMs).toBe(h.clock.now());
    await h.clock.advance(MINUTE);
    expect(await leased(h)).toEqual([]);
    expect(await resumeQueues(h.engine, QUEUE)).toMatchObject({ resumed: true });
  });

  test('ends in time although many others end at the same time', async () => {
    await using h = await engineHarness({ writeMs: 1, syncMs: 20 });
    const names = Array.from({ length: 300 }, (_, number) => `group ${number}#mail`);
    await h.clock.run(Promise.all(names.map((name) => h.enqueue(name, ['a']))));
    const end = (h.clock.now() + MINUTE) as Instant;
    await h.clock.run(Promise.all(names.map((name) => pauseQueues(h.engine, name, { until: end }))));
    await h.clock.run(pauseQueues(h.engine, QUEUE, { until: (end + 150) as Instant }));
    await h.clock.run(h.enqueue(QUEUE, ['b']));
    const request = waiting(h);
    await h.clock.advance(end - h.clock.now() + 150 + 250);
    expect(request.got).toEqual(['b']);
    await h.clock.advance(2000);
    expect(await h.engine.pauses.list('group 7')).toEqual([]);
    expect(h.taskRows()).toBe(names.length + 1);
  });

  test('that would end at once is refused', async () => {
    await using h = await engineHarness();
    for (const until of [h.clock.now(), h.clock.now() - 1] as Instant[]) {
      await expect(pauseQueues(h.engine, QUEUE, { until })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
        metadata: { field: 'until_unix_ms' },
      });
    }
    expect(await h.engine.pauses.list('shop')).toEqual([]);
  });

  test('of what is not paused has no end: it says so', async () => {
    await using h = await engineHarness();
    expect(await resumeQueues(h.engine, QUEUE)).toEqual({ resumed: false, pauses: [] });
    await pauseQueues(h.engine, 'shop#m*');
    expect(await resumeQueues(h.engine, QUEUE)).toMatchObject({ resumed: false, pauses: [{ pattern: 'm*' }] });
  });

  test('outlives its queue, and applies to one that is created later', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE);
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    expect(await pauseOf(h)).toMatchObject({ reason: 'maintenance' });
    const request = waiting(h);
    await h.enqueue(QUEUE, ['b']);
    expect([await leased(h), request.got]).toEqual([[], []]);
    await resumeQueues(h.engine, QUEUE);
    await request.answered;
    expect(request.got).toEqual(['b']);
  });

  test('of a pattern or a group applies to its queues, also to those that are created later', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await h.enqueue('other#mail', ['b']);
    await pauseQueues(h.engine, 'shop#*');
    await h.enqueue('shop#new', ['c']);
    const request = waiting(h, [], GROUP);
    expect(await leased(h, [QUEUE, 'shop#new', 'other#mail'])).toEqual(['b']);
    expect(await pauseOf(h, 'shop#new')).toMatchObject({ queues: 'shop#*' });
    expect(await pauseOf(h, 'other#mail')).toBeUndefined();
    await resumeQueues(h.engine, 'shop#*');
    await request.answered;
    expect(request.got.length).toBeGreaterThan(0);
  });

  test('among several of one queue does not end the others, and the one that ends last is shown', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, 'shop#*', { durationMs: 2 * MINUTE });
    await pauseQueues(h.engine, 'shop#m*', { durationMs: MINUTE });
    await pauseQueues(h.engine, QUEUE);
    expect(await pauseOf(h)).toMatchObject({ queues: QUEUE });
    const { resumed, pauses } = await resumeQueues(h.engine, QUEUE);
    expect([resumed, pauses.map(({ pattern }) => pattern)]).toEqual([true, ['m*', '*']]);
    expect(await pauseOf(h)).toMatchObject({ queues: 'shop#*' });
    const request = waiting(h);
    await h.clock.advance(MINUTE + 100);
    expect(request.got).toEqual([]);
    expect((await h.engine.pauses.list('shop')).map(({ pattern }) => pattern)).toEqual(['*']);
    await h.clock.advance(MINUTE);
    expect(request.got).toEqual(['a']);
  });

  test.each(['crash', 'kill'] as const)('is there after a %s, also before its first checkpoint', async (how) => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE);
    await pauseQueues(h.engine, QUEUE, { reason: 'again', durationMs: 10 * MINUTE });
    const before = await pauseOf(h);
    if (how === 'crash') h.lose();
    else h.kill();
    await h.open();
    expect([await pauseOf(h), await leased(h)]).toEqual([before, []]);
    await h.clock.advance(2000);
    await h.crash();
    expect([await pauseOf(h), await leased(h)]).toEqual([before, []]);
    const request = waiting(h);
    await h.clock.advance(10 * MINUTE);
    expect(request.got).toEqual(['a']);
    await h.crash();
    expect(await pauseOf(h)).toBeUndefined();
  });

  test('that ends while the node is down is over at its start', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    await pauseQueues(h.engine, QUEUE, { durationMs: 1000 });
    await h.crash();
    const then = h.clock.now() + 1000;
    h.lose();
    await h.clock.advance(Math.max(0, then - h.clock.now()));
    await h.open();
    expect(await leased(h)).toEqual(['a']);
  });

  test('is what it was after a write that failed: a resume that was not written has resumed nothing', async () => {
    await using h = await engineHarness({ writeMs: 1, syncMs: 1 });
    await h.clock.run(h.enqueue(QUEUE, ['a']));
    await h.clock.run(pauseQueues(h.engine, QUEUE));
    // Its lease was to be written with the resume.
    const served = expect(h.lease(QUEUE, { wait: MINUTE })).rejects.toMatchObject({ reason: 'DISK_FULL' });
    h.disk.space = 'none';
    await expect(h.clock.run(resumeQueues(h.engine, QUEUE))).rejects.toMatchObject({ reason: 'DISK_FULL' });
    await served;
    const request = waiting(h);
    await h.clock.advance(5000);
    h.disk.space = 'plenty';
    await h.clock.advance(5000);
    expect([await pauseOf(h), request.got]).toMatchObject([{ reason: 'maintenance' }, []]);
    await h.clock.run(resumeQueues(h.engine, QUEUE));
    await h.clock.advance(10);
    expect(request.got).toEqual(['a']);
  });

  test('has a limit of number, also when callers pause at the same time', async () => {
    await using h = await engineHarness();
    const pause = (name: string) => pauseQueues(h.engine, `shop#${name}`);
    await Promise.all(Array.from({ length: limits.queuePauses - 1 }, (_, number) => pause(`q${number}`)));
    const both = await Promise.allSettled([pause('one'), pause('other')]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(pause('one more')).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS', metadata: { field: 'queues' } });
    await pause('q7');
    expect(await h.engine.pauses.list('shop')).toHaveLength(limits.queuePauses);
  });

  test('is no queue of users', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ queues: 1 }) });
    await pauseQueues(h.engine, 'shop#*');
    await h.enqueue(QUEUE, ['a']);
    expect(h.engine.figures().queues).toBe(1);
  });
});
