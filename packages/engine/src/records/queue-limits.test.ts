import { isDeepStrictEqual } from 'node:util';
import { limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import type { LimitUse } from '../domain/queue-limits.ts';
import { Family } from '../ports/store.ts';
import { type EngineHarness, engineHarness, type LeaseSpec, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues, unlimitQueues } from '../testing/limit-queues.ts';
import { pauseQueues, resumeQueues } from '../testing/pause-queues.ts';
import { SeededRandom } from '../testing/seeded-random.ts';

const A = 'shop#a';
const B = 'shop#b';
const MINUTE = 60_000;
const GROUP: LeaseSpec = { patterns: [{ group: 'shop' }] };

const leased = async (h: EngineHarness, queues: string | string[], spec: LeaseSpec = {}) =>
  pidsOf(await h.lease(queues, { max: 9, ...spec }));

/** A lease request that waits, and what it has got so far. */
function waiting(h: EngineHarness, queues: string | string[], spec: LeaseSpec = {}) {
  const got: string[] = [];
  const note = (tasks: readonly LeasedTask[]): void => void got.push(...(tasks.length > 0 ? pidsOf(tasks) : ['none']));
  const answered = h.lease(queues, { max: 1, wait: 10 * MINUTE, for: 30 * MINUTE, ...spec }).then(note);
  return { got, answered };
}

const statsOf = async (h: EngineHarness, queue: string) => {
  const { queues } = await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] });
  const [stats] = queues;
  if (stats === undefined) throw new Error('no statistics');
  return stats;
};

const done = (h: EngineHarness, queue: string, { token }: { readonly token: number }, pid: string) =>
  h.update({ dequeue: [{ queue, pid, token: token as LeasedTask['token'] }] });

const first = (tasks: readonly LeasedTask[]): LeasedTask => {
  const [task] = tasks;
  if (task === undefined) throw new Error('nothing is leased');
  return task;
};

describe('a limit of leased tasks', () => {
  test('gives one request for many tasks those that are left, and a later one nothing', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c', 'd']);
    await limitQueues(h.engine, A, { maxLeased: 3 });
    expect(await leased(h, A, { max: 1 })).toEqual(['a']);
    expect(await leased(h, A)).toEqual(['b', 'c']);
    expect(await leased(h, A)).toEqual([]);
    expect(await h.counts(A)).toEqual({ available: 1, leased: 3, delayed: 0 });
  });

  test('does not let reads of a task wait for the leases of other queues, which statistics need', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'shop#*', { maxLeased: 9 });
    await h.enqueue(A, ['a']);
    await h.enqueue(B, ['b']);
    await h.lease(B, { for: 1000 });
    await h.clock.advance(1000);
    await h.engine.getTasks({ queue: parseQueueName(A), pids: ['a' as Pid], includeData: false });
    await h.waitFor(A, ['a']);
    expect(h.engine.figures().leasesExpired).toBe(0);
    await statsOf(h, A);
    expect(h.engine.figures().leasesExpired).toBe(1);
  });

  test('of a pattern is one of its queues together, within one request and among several', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'shop#*', { maxLeased: 3 });
    await h.enqueue(A, ['a', 'b']);
    await h.enqueue(B, ['c', 'd', 'e']);
    await h.enqueue('other#a', ['z']);
    expect(await leased(h, [A, B, 'other#a'])).toEqual(['a', 'b', 'c', 'z']);
    expect(await leased(h, [A, B])).toEqual([]);
    expect(await leased(h, [], GROUP)).toEqual([]);
    expect(h.engine.queuesWithTasks({ queues: [], ...GROUP } as never, 9)).toEqual([]);
  });

  test('of a pattern bounds requests by pattern, whose queues take turns under it', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    await h.enqueue(A, ['a1', 'a2', 'a3']);
    await h.enqueue(B, ['b1', 'b2', 'b3']);
    const order: string[] = [];
    for (let at = 0; at < 6; at++) {
      const task = first(await h.lease([], { ...GROUP, max: 9 }));
      order.push(pidsOf([task]).join());
      expect(await leased(h, [], GROUP)).toEqual([]);
      await done(h, `shop#${task.queue.name}`, task, task.pid);
    }
    expect(order.toSorted()).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'b3']);
    expect(order.map((pid) => pid[0]).join('')).toMatch(/^(ab){3}$|^(ba){3}$/);
  });

  test('applies with every other one that matches: the least room counts', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c', 'd']);
    await h.enqueue(B, ['e', 'f', 'g', 'h']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 5 });
    await limitQueues(h.engine, A, { maxLeased: 2 });
    expect(await leased(h, [A, B])).toEqual(['a', 'b', 'e', 'f', 'g']);
    const heldBy = async (queue: string) => (await statsOf(h, queue)).heldBy.map(({ record: { pattern } }) => pattern);
    expect(await heldBy(A)).toEqual(['a', '*']);
    expect(await heldBy(B)).toEqual(['*']);
    // The one that has been used up for the longest time comes first, and a few are shown of many.
    await h.clock.advance(1000);
    await limitQueues(h.engine, B, { maxLeased: 3 });
    expect(await heldBy(B)).toEqual(['*', 'b']);
    for (let number = 1; number <= 9; number++)
      await limitQueues(h.engine, `shop#b${'*'.repeat(number)}`, { maxLeased: 1 });
    expect(await heldBy(B)).toHaveLength(8);
  });

  test.each([
    ['a completion', (h: EngineHarness, { token }: LeasedTask) => done(h, A, { token }, 'a')],
    [
      'a release',
      (h: EngineHarness, { token }: LeasedTask) =>
        h.update({ release: [{ queue: A, pid: 'a', token, delay: 10 * MINUTE }] }),
    ],
    ['a reset', (h: EngineHarness) => h.engine.resetLeases(parseQueueName(A))],
    ['a deletion of its task', (h: EngineHarness) => h.update({ dequeue: [{ queue: A, pid: 'a' }] })],
    ['a deletion of its queue', (h: EngineHarness) => h.engine.deleteQueue(parseQueueName(A))],
    ['its end', (h: EngineHarness) => h.clock.advance(MINUTE + 100)],
  ])('serves the next one that waits when a lease ends by %s, in order of arrival over all queues', async (_, end) => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    const task = first(await h.lease(A, { for: MINUTE }));
    await h.enqueue(B, ['b']);
    await h.enqueue('shop#c', ['c']);
    const requests = [waiting(h, 'shop#c'), waiting(h, B), waiting(h, [], GROUP), waiting(h, A)];
    await h.clock.advance(1000);
    expect(requests.map(({ got }) => got)).toEqual([[], [], [], []]);
    await end(h, task);
    await requests[0]?.answered;
    await h.clock.advance(1000);
    expect(requests.map(({ got }) => got)).toEqual([['c'], [], [], []]);
    await h.engine.deleteQueue(parseQueueName('shop#c'));
    await requests[1]?.answered;
    expect(requests.map(({ got }) => got).slice(0, 2)).toEqual([['c'], ['b']]);
  });

  test('counts a lease that goes to the dead letters until it ends', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: A, pid: 'a', retry: { maxAttempts: 1 } }] });
    await h.enqueue(B, ['b']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    expect(await leased(h, A, { for: 1000 })).toEqual(['a']);
    const request = waiting(h, B);
    await h.clock.advance(1100);
    expect(request.got).toEqual(['b']);
    expect(await h.counts('shop#a.dead')).toEqual({ available: 1, leased: 0, delayed: 0 });
  });

  test('does not count a lease that is over, also for a request without a wait', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a']);
    await h.enqueue(B, ['b']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    await leased(h, A, { for: 1050 });
    await h.clock.advance(1049);
    expect(await leased(h, B)).toEqual([]);
    await h.clock.advance(1);
    expect(await leased(h, B)).toEqual(['b']);
  });

  test('can be raised, which serves those who wait, and lowered, which ends no lease', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c', 'd']);
    await limitQueues(h.engine, A, { maxLeased: 1 });
    const tasks = await h.lease(A, { max: 9 });
    const requests = [waiting(h, A), waiting(h, A), waiting(h, A)];
    const { leased: now } = await limitQueues(h.engine, A, { maxLeased: 3 });
    expect(now).toBeLessThanOrEqual(3);
    await Promise.all([requests[0]?.answered, requests[1]?.answered]);
    expect(requests.map(({ got }) => got)).toEqual([['b'], ['c'], []]);
    const lowered = await limitQueues(h.engine, A, { maxLeased: 1 });
    expect(lowered).toMatchObject({ leased: 3, usedUpSince: h.clock.now() });
    await done(h, A, first(tasks), 'a');
    await h.clock.advance(1000);
    expect(requests[2]?.got).toEqual([]);
    expect(await unlimitQueues(h.engine, A)).toEqual({ removed: true, limits: [] });
    await requests[2]?.answered;
    expect(requests[2]?.got).toEqual(['d']);
    expect(await unlimitQueues(h.engine, A)).toEqual({ removed: false, limits: [] });
  });

  test('serves those who wait for any of its queues when it ends', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a']);
    await h.enqueue(B, ['b', 'c']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    await leased(h, A);
    const request = waiting(h, B, { max: 9 });
    await unlimitQueues(h.engine, 'shop#*');
    await request.answered;
    expect(request.got).toEqual(['b', 'c']);
  });

  test('keeps requests for other queues waiting, not busy, while expired leases cannot be read', async () => {
    await using h = await engineHarness({ readMs: 1 });
    await h.clock.run(h.enqueue(A, ['a']));
    await h.clock.run(h.enqueue(B, ['b']));
    await h.clock.run(limitQueues(h.engine, 'shop#*', { maxLeased: 1 }));
    await h.clock.run(leased(h, A, { for: 1000 }));
    // After the checkpoint only the rows know which leases there are.
    await h.clock.advance(900);
    await h.crash();
    for (const { key } of h.disk.rowsOf(Family.due)) h.disk.corrupt(Family.due, key);
    const request = waiting(h, B, { wait: 5000 });
    await h.clock.advance(5000);
    expect(request.got).toEqual(['none']);
  });

  test('holds beside a pause', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b']);
    await limitQueues(h.engine, A, { maxLeased: 1 });
    await pauseQueues(h.engine, A);
    const request = waiting(h, A, { max: 9 });
    await h.clock.advance(1000);
    expect(request.got).toEqual([]);
    await resumeQueues(h.engine, A);
    await request.answered;
    expect(request.got).toEqual(['a']);
    expect((await statsOf(h, A)).heldBy[0]?.leased).toBe(1);
    await pauseQueues(h.engine, A);
    expect((await statsOf(h, A)).heldBy[0]).toBeUndefined();
  });

  test('says what it holds back and since when: a slot that is free for a moment does not count', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c']);
    const { record } = await limitQueues(h.engine, 'shop#*', { maxLeased: 1 });
    const since = h.clock.now();
    expect(record.message).toMatchObject({ queues: 'shop#*', limitedBy: 'ann', sinceUnixMs: since });
    expect((await statsOf(h, A)).heldBy[0]).toBeUndefined();
    let task = first(await h.lease(A));
    await h.clock.advance(5000);
    await done(h, A, task, 'a');
    await h.clock.advance(999);
    task = first(await h.lease(A));
    expect((await statsOf(h, A)).heldBy[0]).toEqual({
      record,
      leased: 1,
      usedUpSince: since,
      heldKeys: [],
      heldKeyCount: 0,
      heldTasks: 0,
    });
    expect((await statsOf(h, B)).heldBy[0]).toBeUndefined();
    await done(h, A, task, 'b');
    await h.clock.advance(1000);
    await h.lease(A);
    // No task is left that it could hold back.
    expect((await statsOf(h, A)).heldBy[0]).toBeUndefined();
    expect(await h.engine.limits.list('shop')).toMatchObject([{ record, leased: 1, usedUpSince: since + 6999 }]);
  });

  test.each(['crash', 'kill'] as const)('is there after a %s, with the leases that count', async (how) => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c']);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 2 });
    expect(await leased(h, A, { max: 1, for: MINUTE })).toEqual(['a']);
    if (how === 'crash') h.lose();
    else h.kill();
    await h.open();
    expect(await leased(h, A, { for: 10 * MINUTE })).toEqual(['b']);
    await h.clock.advance(2000);
    await h.crash();
    const request = waiting(h, A);
    await h.clock.advance(MINUTE - 5000);
    expect(request.got).toEqual([]);
    await h.clock.advance(10_000);
    expect(request.got).toEqual(['a']);
    expect(await h.engine.limits.list('shop')).toMatchObject([{ leased: 2 }]);
  });

  test('is what it was after a write that failed: a lease that was not written has taken no slot', async () => {
    await using h = await engineHarness({ writeMs: 1, syncMs: 1 });
    await h.clock.run(h.enqueue(A, ['a', 'b']));
    await h.clock.run(limitQueues(h.engine, A, { maxLeased: 1 }));
    h.disk.space = 'none';
    await expect(h.clock.run(h.lease(A))).rejects.toMatchObject({ reason: 'DISK_FULL' });
    await h.clock.advance(5000);
    h.disk.space = 'plenty';
    await h.clock.advance(5000);
    expect(await h.clock.run(h.engine.limits.list('shop'))).toMatchObject([{ leased: 0, usedUpSince: undefined }]);
    expect(await h.clock.run(leased(h, A))).toEqual(['a']);
  });

  test('outlives its queues, and applies to those that are created later', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b']);
    await limitQueues(h.engine, A, { maxLeased: 1 });
    await leased(h, A);
    await h.engine.deleteQueue(parseQueueName(A));
    expect(await h.engine.limits.list('shop')).toMatchObject([{ leased: 0 }]);
    await h.enqueue(A, ['c', 'd']);
    expect(await leased(h, A)).toEqual(['c']);
  });

  test('gives slots for tasks that are read from the disk', async () => {
    await using h = await engineHarness({ readMs: 5, config: { cacheBytes: 1 } });
    await h.clock.run(h.enqueue(A, ['a', 'b', 'c']));
    await h.clock.run(limitQueues(h.engine, A, { maxLeased: 2 }));
    await h.crash();
    const both = await h.clock.run(Promise.all([leased(h, A), leased(h, A)]));
    expect(both.flat()).toEqual(['a', 'b']);
  });

  test('names other limits of the same queues at its end, the most specific ones first', async () => {
    await using h = await engineHarness();
    for (const queues of ['shop#*', 'shop#a*', A, 'shop#b']) await limitQueues(h.engine, queues, { maxLeased: 1 });
    const { removed, limits: others } = await unlimitQueues(h.engine, A);
    expect([removed, others.map(({ record }) => record.pattern)]).toEqual([true, ['a*', '*']]);
  });

  test('has a limit of number, also when callers set limits at the same time', async () => {
    await using h = await engineHarness();
    const limit = (name: string) => limitQueues(h.engine, `shop#${name}`, { maxLeased: 1 });
    await Promise.all(Array.from({ length: limits.queueLimits - 1 }, (_, number) => limit(`q${number}`)));
    const both = await Promise.allSettled([limit('one'), limit('other')]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(limit('one more')).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS', metadata: { field: 'queues' } });
    await limit('q7');
    expect(await h.engine.limits.list('shop')).toHaveLength(limits.queueLimits);
  });
});

describe('a limit of the rate of leases', () => {
  const PIDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const rate = (tasks: number, perMs: number, burst = tasks) => ({ rate: { tasks, perMs, burst } });

  test('gives a burst at once, and then one task after the other, whatever becomes of them', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    await limitQueues(h.engine, A, rate(2, 1000, 3));
    const tasks = await h.lease(A, { max: 9 });
    expect(pidsOf(tasks)).toEqual(['a', 'b', 'c']);
    await done(h, A, first(tasks), 'a');
    await h.engine.resetLeases(parseQueueName(A));
    expect(await leased(h, A)).toEqual([]);
    await h.clock.advance(499);
    expect(await leased(h, A)).toEqual([]);
    await h.clock.advance(1);
    expect(await leased(h, A)).toEqual(['b']);
    // The lease of b has ended, too.
    await h.clock.advance(MINUTE);
    expect(await leased(h, A)).toEqual(['b', 'c', 'd']);
    expect(await leased(h, A)).toEqual([]);
  });

  test('wakes those who wait in the ms of the next token, in order of arrival over all queues', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b', 'c']);
    await h.enqueue(B, ['d', 'e', 'f']);
    await limitQueues(h.engine, 'shop#*', rate(1, 100));
    expect(await leased(h, A, { max: 1 })).toEqual(['a']);
    const requests = [waiting(h, B), waiting(h, A), waiting(h, [], GROUP), waiting(h, B)];
    const got = () => requests.map((request) => request.got.length);
    await h.clock.advance(99);
    expect(got()).toEqual([0, 0, 0, 0]);
    await h.clock.advance(1);
    expect(got()).toEqual([1, 0, 0, 0]);
    await h.clock.advance(99);
    expect(got()).toEqual([1, 0, 0, 0]);
    await h.clock.advance(1);
    expect(got()).toEqual([1, 1, 0, 0]);
    await h.clock.advance(100);
    expect(got()).toEqual([1, 1, 1, 0]);
    await h.clock.advance(100);
    expect(got()).toEqual([1, 1, 1, 1]);
  });

  test('lets a new request not overtake those who wait for the token of this ms', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b']);
    await h.enqueue(B, ['c']);
    await limitQueues(h.engine, 'shop#*', rate(1, 100));
    await leased(h, A, { max: 1 });
    const request = waiting(h, B);
    let late: string[] | undefined;
    h.clock.at((h.clock.now() + 100) as Instant, () => {
      void leased(h, A).then((tasks) => {
        late = tasks;
      });
    });
    await h.clock.advance(100);
    expect([request.got, late]).toEqual([['c'], []]);
  });

  test.each([
    [3, 1000, 1],
    [7, 1000, 5],
    [1000, 60_000, 1],
    [5000, 1000, 10],
  ])(
    'of %i in %i ms with a burst of %i is never more, and hardly less over a long time',
    async (tasks, perMs, burst) => {
      await using h = await engineHarness();
      const pids = Array.from({ length: 300 }, (_, number) => `${1000 + number}`);
      await h.enqueue(A, pids);
      await limitQueues(h.engine, A, rate(tasks, perMs, burst));
      const began = h.clock.now();
      const lastMs = Math.ceil(((pids.length - burst) * perMs) / tasks);
      for (let total = 0; total < pids.length; ) {
        const got = await h.clock.run(h.lease(A, { max: 9, wait: MINUTE, for: 30 * MINUTE }));
        total += got.length;
        const elapsed = h.clock.now() - began;
        expect(total).toBeLessThanOrEqual(burst + Math.floor((elapsed * tasks) / perMs));
        expect(got.length).toBeGreaterThan(0);
      }
      const elapsed = h.clock.now() - began;
      expect(elapsed).toBeGreaterThanOrEqual(lastMs);
      // With a burst of one task each token waits for a whole ms.
      expect(elapsed).toBeLessThanOrEqual(lastMs + (burst === 1 ? 1000 : 0));
    },
  );

  test('holds beside one of leased tasks: a token that comes while no slot is free is used later', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    await limitQueues(h.engine, A, { maxLeased: 2, ...rate(1, 1000, 2) });
    const tasks = await h.lease(A, { max: 9, for: 30 * MINUTE });
    expect(pidsOf(tasks)).toEqual(['a', 'b']);
    const request = waiting(h, A, { max: 9 });
    await h.clock.advance(MINUTE);
    expect(request.got).toEqual([]);
    await done(h, A, first(tasks), 'a');
    await request.answered;
    expect(request.got).toEqual(['c']);
    expect((await statsOf(h, A)).heldBy[0]).toMatchObject({ leased: 2 });
  });

  test('is the same after it is set again, and has the tokens that have come since it was empty after it is raised', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    await limitQueues(h.engine, A, rate(1, 1000));
    expect(await leased(h, A)).toEqual(['a']);
    await h.clock.advance(600);
    await limitQueues(h.engine, A, rate(1, 1000));
    await limitQueues(h.engine, A, rate(1, 1000, 5));
    expect(await leased(h, A)).toEqual([]);
    const request = waiting(h, A, { max: 9 });
    await h.clock.advance(399);
    expect(request.got).toEqual([]);
    await h.clock.advance(1);
    expect(request.got).toEqual(['b']);
    const other = waiting(h, A, { max: 9 });
    await limitQueues(h.engine, A, rate(1, 10, 5));
    await h.clock.advance(10);
    expect(other.got).toEqual(['c']);
    await unlimitQueues(h.engine, A);
    expect(await leased(h, A)).toEqual(['d', 'e', 'f', 'g', 'h']);
  });

  test('costs a request that waits for a queue of another limit nothing', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['a', 'b']);
    await limitQueues(h.engine, A, rate(1, 10 * MINUTE));
    await leased(h, A);
    const request = waiting(h, [A, 'other#b']);
    await h.enqueue('other#b', ['c']);
    await request.answered;
    expect(request.got).toEqual(['c']);
  });

  test('says since when it holds tasks back', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, PIDS);
    const { record } = await limitQueues(h.engine, 'shop#*', rate(1, 500));
    const since = h.clock.now();
    await leased(h, A);
    await h.clock.advance(400);
    expect((await statsOf(h, A)).heldBy[0]).toEqual({
      record,
      leased: 1,
      usedUpSince: since,
      heldKeys: [],
      heldKeyCount: 0,
      heldTasks: 0,
    });
    await h.clock.advance(100);
    expect((await statsOf(h, A)).heldBy[0]).toBeUndefined();
    await leased(h, A);
    expect((await statsOf(h, A)).heldBy[0]).toMatchObject({ leased: 2, usedUpSince: since });
  });
});

describe('a limit in any history', () => {
  const QUEUES = [A, B, 'shop#c'];

  /** Steps at random. After each one, no limit is exceeded, and no request waits that could have a task. */
  async function play(seed: number): Promise<void> {
    const random = new SeededRandom(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random.next() * from.length)] as T;
    await using h = await engineHarness(random.next() < 0.3 ? { readMs: 1, config: { cacheBytes: 1 } } : {});
    const most = new Map<string, number>();
    const held: LeasedTask[] = [];
    const open = new Map<number, readonly string[]>();
    let number = 0;
    const steps = [
      () => h.enqueue(pick(QUEUES), [`t${number++}`, `t${number++}`]),
      () => {
        const id = number++;
        const queues = [pick(QUEUES), pick(QUEUES)];
        const patterns = random.next() < 0.3 ? GROUP : {};
        open.set(id, 'patterns' in patterns ? QUEUES : queues);
        const asked = 'patterns' in patterns ? [] : queues;
        void h.lease(asked, { ...patterns, max: pick([1, 1, 2, 5]), for: pick([300, 2000, 9000]), wait: MINUTE }).then(
          (tasks) => {
            open.delete(id);
            held.push(...tasks);
          },
          () => open.delete(id),
        );
        return Promise.resolve();
      },
      async () => {
        const [task] = held.splice(Math.floor(random.next() * held.length), 1);
        if (task === undefined) return;
        const item = { queue: `shop#${task.queue.name}`, pid: task.pid, token: task.token };
        const update = random.next() < 0.6 ? { dequeue: [item] } : { release: [{ ...item, delay: pick([0, 500]) }] };
        await h.update(update).catch(() => {});
      },
      () => h.engine.resetLeases(parseQueueName(pick(QUEUES))),
      () => h.engine.deleteQueue(parseQueueName(pick(QUEUES))),
      async () => {
        const queues = pick([...QUEUES, 'shop#*', 'shop#*']);
        const maxLeased = pick([1, 2, 3]);
        await limitQueues(h.engine, queues, { maxLeased });
        most.set(queues, maxLeased);
      },
      async () => {
        const queues = pick([...most.keys(), 'shop#*']);
        await unlimitQueues(h.engine, queues);
        most.delete(queues);
      },
    ];
    const weights = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 5, 6, 7, 7]; // 7: time passes
    for (let step = 0; step < 120; step++) {
      const before = await h.clock.run(countsNow(h));
      const act = steps[pick(weights)];
      if (act === undefined) await h.clock.advance(pick([50, 300, 1100]));
      else await h.clock.run(Promise.resolve(act()));
      // Due tasks are shown, and reads end.
      await h.clock.advance(250);
      const counts = await h.clock.run(countsNow(h));
      const uses = await h.clock.run(h.engine.limits.list('shop'));
      // Looking may show due tasks, which are leased then.
      const isStill = isDeepStrictEqual(counts, await h.clock.run(countsNow(h)));
      for (const { record, leased: used } of uses) {
        const named = QUEUES.filter((queue) => record.matches(parseQueueName(queue).name));
        const leasedOf = (all: typeof counts) => named.reduce((sum, queue) => sum + (all.get(queue)?.leased ?? 0), 0);
        const sum = leasedOf(counts);
        if (isStill) expect(used, `seed ${seed}, step ${step}`).toBe(sum);
        const limit = most.get(record.message.queues) ?? 0;
        expect(record.message.maxLeased).toBe(limit);
        // A limit that was lowered ends no lease.
        expect(sum, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(Math.max(limit, leasedOf(before)));
      }
      let stuck = stuckNow(counts, uses);
      for (let look = 0; stuck.length > 0 && look < 2; look++) {
        await h.clock.advance(250);
        const later = stuckNow(await h.clock.run(countsNow(h)), await h.clock.run(h.engine.limits.list('shop')));
        stuck = stuck.filter((id) => later.includes(id));
      }
      expect(stuck, `seed ${seed}, step ${step}: requests wait for tasks that they may have`).toEqual([]);
    }

    /** Requests that wait although a limit lets them have a task. */
    function stuckNow(counts: Awaited<ReturnType<typeof countsNow>>, uses: readonly LimitUse[]): number[] {
      const isFree = (queue: string): boolean => {
        const matching = uses.filter(({ record }) => record.matches(parseQueueName(queue).name));
        const hasRoom = matching.every(({ record, leased: used }) => used < record.message.maxLeased);
        return hasRoom && (counts.get(queue)?.available ?? 0) > 0;
      };
      return [...open].filter(([, queues]) => queues.some(isFree)).map(([id]) => id);
    }
  }

  async function countsNow(h: EngineHarness): Promise<Map<string, { available: number; leased: number }>> {
    const counts = new Map<string, { available: number; leased: number }>();
    for (const queue of QUEUES) counts.set(queue, await h.counts(queue));
    return counts;
  }

  // With seed 257 a request by pattern waits for the read of one queue at the front of the line of another one.
  test.each([...Array.from({ length: 20 }, (_, seed) => seed), 257])('is kept and wakes those who wait: seed %i', play);
});
