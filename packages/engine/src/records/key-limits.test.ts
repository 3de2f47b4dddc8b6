import { parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import { Family } from '../ports/store.ts';
import { type EngineHarness, engineHarness, type HarnessOptions, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues, unlimitQueues } from '../testing/limit-queues.ts';
import { putSettings } from '../testing/put-settings.ts';

const A = 'shop#a';
const B = 'shop#b';
const MINUTE = 60_000;

/** Tasks with these PIDs, whose limit keys are the letters before their numbers. */
const tasks = (queue: string, pids: readonly string[], more: object = {}) =>
  pids.map((pid) => ({ queue, pid, data: `data of ${pid}`, limitKey: pid.replace(/\d+$/, ''), ...more }));

const add = (h: EngineHarness, queue: string, pids: readonly string[]) => h.update({ enqueue: tasks(queue, pids) });

const leased = async (h: EngineHarness, queues: string | string[], max = 9): Promise<string[]> =>
  pidsOf(await h.clock.run(h.lease(queues, { max })));

const done = (h: EngineHarness, queue: string, { pid, token }: Pick<LeasedTask, 'pid' | 'token'>) =>
  h.update({ dequeue: [{ queue, pid, token }] });

const first = (tasks: readonly LeasedTask[]): LeasedTask => {
  const [task] = tasks;
  if (task === undefined) throw new Error('nothing is leased');
  return task;
};

/** A lease request that waits, and what it has got so far. */
function waiting(h: EngineHarness, queue: string, max = 1) {
  const got: string[] = [];
  const answered = h.lease(queue, { max, wait: 10 * MINUTE }).then((tasks) => void got.push(...pidsOf(tasks)));
  return { got, answered };
}

async function setUp(limit: object = { maxLeased: 1 }, options: HarnessOptions = {}): Promise<EngineHarness> {
  const h = await engineHarness(options);
  await limitQueues(h.engine, 'shop#*', { keys: '*', ...limit });
  return h;
}

describe('tasks with limit keys, without a limit', () => {
  test('are leased in the order of their PIDs, among those without a key', async () => {
    await using h = await engineHarness();
    await h.enqueue(A, ['b', 'd', 'f']);
    await h.update({ enqueue: [...tasks(A, ['e1', 'a1', 'c1']), ...tasks(A, ['g1'], { delay: 1000 })] });
    expect(await leased(h, A, 4)).toEqual(['a1', 'b', 'c1', 'd']);
    await h.crash();
    await h.clock.advance(1000);
    expect(await leased(h, A)).toEqual(['e1', 'f', 'g1']);
    expect(await h.counts(A)).toEqual({ available: 0, leased: 7, delayed: 0 });
  });

  test('are read again, and deliver their payloads, when memory has lost them', async () => {
    await using h = await engineHarness();
    const pids = Array.from({ length: 50 }, (_, at) => `k${at + 10}`);
    await add(h, A, pids);
    await h.clock.advance(MINUTE);
    await h.crash();
    const got: LeasedTask[] = [];
    for (let left = 50; left > 0; left -= 10) got.push(...(await h.clock.run(h.lease(A, { max: 10 }))));
    expect(pidsOf(got)).toEqual(pids);
    expect(got.map(({ data }) => Buffer.from(data).toString())).toEqual(pids.map((pid) => `data of ${pid}`));
    for (const task of got) await done(h, A, task);
    await h.clock.advance(MINUTE);
    expect(h.disk.rowsOf(Family.due)).toEqual([]);
    expect(h.disk.rowsOf(Family.hidden)).toEqual([]);
  });

  test('are found by PID, peeked at, replaced and deleted as any other', async () => {
    await using h = await engineHarness();
    await add(h, A, ['b1', 'a1', 'c1']);
    await h.enqueue(A, ['b0']);
    await h.clock.advance(MINUTE);
    await h.crash();
    const queue = parseQueueName(A);
    const peek = { queue, kind: 'head' as const, limit: 3, includeData: true };
    expect(pidsOf(await h.engine.peekTasks(peek))).toEqual(['a1', 'b0', 'b1']);
    expect(pidsOf(await h.engine.peekTasks({ ...peek, after: 'b0' as never }))).toEqual(['b1', 'c1']);
    expect(await h.engine.peekTasks({ ...peek, kind: 'delayed' })).toEqual([]);
    const [task] = await h.engine.getTasks({ queue, pids: ['b1' as never], includeData: true });
    expect(task?.state?.history?.given).toEqual({ timeLimitMs: 0, limitKey: 'b' });
    await h.update({ dequeue: [{ queue: A, pid: 'a1' }] });
    expect(await h.engine.resetLeases(queue)).toBe(0);
    expect(await leased(h, A)).toEqual(['b0', 'b1', 'c1']);
    expect(await h.clock.run(h.engine.resetLeases(queue))).toBe(3);
    expect(await leased(h, A)).toEqual(['b0', 'b1', 'c1']);
  });
});

describe('a limit of each key', () => {
  test('holds back the tasks of a key that is used up, and no others', async () => {
    await using h = await setUp();
    await add(h, A, ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']);
    await h.enqueue(A, ['z']);
    expect(await leased(h, A, 2)).toEqual(['a1', 'b1']);
    expect(await leased(h, A)).toEqual(['c1', 'z']);
    expect(await leased(h, A)).toEqual([]);
    expect(await h.counts(A)).toEqual({ available: 3, leased: 4, delayed: 0 });
    await h.update({ dequeue: [{ queue: A, pid: 'a1' }] });
    expect(await leased(h, A)).toEqual(['a2']);
  });

  test('is one of the queues that it matches together, within one request and among several', async () => {
    await using h = await setUp({ maxLeased: 2 });
    await add(h, A, ['a1']);
    await add(h, B, ['a2', 'a3', 'b1']);
    await add(h, 'other#a', ['a4']);
    expect(await leased(h, [A, B, 'other#a'])).toEqual(['a1', 'a2', 'b1', 'a4']);
    const request = waiting(h, B);
    await h.clock.advance(1000);
    expect(request.got).toEqual([]);
    await h.update({ dequeue: [{ queue: A, pid: 'a1' }] });
    await request.answered;
    expect(request.got).toEqual(['a3']);
  });

  test.each([
    ['a completion', (h: EngineHarness, task: LeasedTask) => done(h, A, task)],
    [
      'a release',
      (h: EngineHarness, { pid, token }: LeasedTask) =>
        h.update({ release: [{ queue: A, pid, token, delay: 10 * MINUTE }] }),
    ],
    ['a deletion of its task', (h: EngineHarness, { pid }: LeasedTask) => h.update({ dequeue: [{ queue: A, pid }] })],
    ['a deletion of its queue', (h: EngineHarness) => h.engine.deleteQueue(parseQueueName(A))],
    ['its end', (h: EngineHarness) => h.clock.advance(MINUTE + 100)],
    ['a higher limit', (h: EngineHarness) => limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 2 })],
    ['the end of the limit', (h: EngineHarness) => unlimitQueues(h.engine, 'shop#*', '*')],
    ['a limit of the key itself', (h: EngineHarness) => limitQueues(h.engine, 'shop#*', { keys: 'a', maxLeased: 9 })],
  ])('serves those who wait when a slot is free by %s', async (_, end) => {
    await using h = await setUp();
    await add(h, A, ['a1']);
    const task = first(await h.lease(A, { for: MINUTE }));
    await add(h, B, ['a2']);
    const request = waiting(h, B);
    await h.clock.advance(1000);
    expect(request.got).toEqual([]);
    await end(h, task);
    await h.clock.advance(1000);
    expect(request.got).toEqual(['a2']);
  });

  test('counts what is leased after a crash, and what was leased before it was set', async () => {
    await using h = await engineHarness();
    await add(h, A, ['a1', 'a2', 'a3', 'b1', 'b2']);
    await add(h, B, ['a4', 'b3']);
    expect(await leased(h, A, 1)).toEqual(['a1']);
    await limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 2 });
    expect(await leased(h, [A, B])).toEqual(['a2', 'b1', 'b2']);
    await h.clock.advance(MINUTE / 4);
    await h.crash();
    expect(await leased(h, [A, B])).toEqual([]);
    expect(await leased(h, B)).toEqual([]);
    await h.update({ dequeue: [{ queue: A, pid: 'b1' }] });
    expect(await leased(h, [B, A])).toEqual(['b3']);
    await h.clock.advance(MINUTE);
    expect((await leased(h, [A, B])).toSorted()).toEqual(['a1', 'a2', 'b2', 'b3']);
  });

  test('gives each key its own tokens of a rate, and serves requests when they come', async () => {
    await using h = await setUp({ maxLeased: 0, rate: { tasks: 1, perMs: 1000, burst: 2 } });
    await add(h, A, ['a1', 'a2', 'a3', 'a4', 'b1']);
    const request = waiting(h, A, 9);
    await request.answered;
    expect(request.got).toEqual(['a1', 'a2', 'b1']);
    await h.clock.advance(500);
    const next = waiting(h, A);
    await h.clock.advance(499);
    expect(next.got).toEqual([]);
    await h.clock.advance(1);
    expect(next.got).toEqual(['a3']);
    // A key has no more tokens when its tasks have gone for a moment.
    for (const pid of ['b1', 'a1', 'a2', 'a3', 'a4']) await h.update({ dequeue: [{ queue: A, pid }] });
    await add(h, A, ['a5', 'b2', 'b3', 'b4']);
    expect(await leased(h, A)).toEqual(['b2', 'b3']);
    await h.clock.advance(1000);
    expect(await leased(h, A)).toEqual(['a5', 'b4']);
  });

  test('of the pattern that names a key best is that of the key, and limits of other queues apply, too', async () => {
    await using h = await setUp();
    await limitQueues(h.engine, 'shop#*', { keys: 'b*', maxLeased: 2 });
    await limitQueues(h.engine, 'shop#*', { keys: 'bb', maxLeased: 3 });
    await limitQueues(h.engine, B, { keys: '*', maxLeased: 2 });
    const pids = ['a1', 'a2', 'b1', 'b2', 'b3', 'bb1', 'bb2', 'bb3', 'bb4'];
    await add(h, A, pids);
    await add(h, B, pids);
    expect(await leased(h, A)).toEqual(['a1', 'b1', 'b2', 'bb1', 'bb2', 'bb3']);
    for (const pid of ['a1', 'b1', 'b2', 'bb1', 'bb2', 'bb3']) await h.update({ dequeue: [{ queue: A, pid }] });
    expect(await leased(h, B)).toEqual(['a1', 'b1', 'b2', 'bb1', 'bb2']);
  });

  test('says which keys it holds back, and since when', async () => {
    await using h = await setUp();
    await add(h, A, ['a1', 'a2', 'b1', 'b2', 'c1']);
    await h.lease(A, { max: 1, for: 10 * MINUTE });
    const since = h.clock.now();
    await h.clock.advance(2000);
    expect(await leased(h, A)).toEqual(['b1', 'c1']);
    const [use] = await h.engine.limits.list('shop');
    expect(use).toMatchObject({
      leased: 3,
      usedUpSince: since,
      heldKeyCount: 2,
      heldTasks: 2,
      heldKeys: [
        { key: 'a', leased: 1, usedUpSince: since, available: 1 },
        { key: 'b', leased: 1, usedUpSince: since + 2000, available: 1 },
      ],
    });
    const stats = await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(A)] });
    expect(stats.queues[0]?.heldBy).toEqual([use]);
    await add(h, A, ['d1']);
    const open = await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(A)] });
    expect(open.queues[0]).toMatchObject({ heldBy: [], heldKeys: 2, heldTasks: 2, heldSince: since });
  });

  test('is shown with the other limits that hold a queue back, once no other task may be leased', async () => {
    await using h = await setUp();
    await add(h, A, ['a1', 'a2', 'b1']);
    await limitQueues(h.engine, A, { keys: 'a', maxLeased: 1, rate: undefined });
    expect(await leased(h, A)).toEqual(['a1', 'b1']);
    await h.clock.advance(1);
    await limitQueues(h.engine, 'shop#*', { maxLeased: 2 });
    const heldBy = async () => {
      const { queues } = await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(A)] });
      return queues[0]?.heldBy.map(({ record: { pattern, message } }) => `${pattern} ${message.keys}`);
    };
    expect(await heldBy()).toEqual(['a a', '* *', '* ']);
    await h.enqueue(A, ['plain']);
    expect(await heldBy()).toEqual(['* ']);
  });

  const heldOf = async (h: EngineHarness, ...queues: string[]) => {
    const uses = await h.clock.run(h.engine.limits.list('shop'));
    const named = { kind: 'named', queues: queues.map(parseQueueName) } as const;
    const stats = await h.clock.run(h.engine.queueStats(named));
    return {
      keys: Object.fromEntries(uses.flatMap((use) => use.heldKeys.map(({ key, available }) => [key, available]))),
      tasks: uses.reduce((sum, { heldTasks }) => sum + heldTasks, 0),
      ofQueues: stats.queues.map(({ heldTasks }) => heldTasks),
    };
  };

  test('counts the tasks behind full keys, of all queues and kinds, as they come and go', async () => {
    await using h = await setUp();
    await add(h, A, ['a1', 'a2', 'a3', 'b1', 'z1']);
    await h.update({ enqueue: tasks(A, ['a4', 'a5'], { kind: 'thumbnail' }) });
    await add(h, B, ['a6', 'b2']);
    await h.enqueue(B, ['plain']);
    const [a1] = await h.clock.run(h.lease(A, { max: 1 }));
    expect(await heldOf(h, A, B)).toEqual({ keys: { a: 5 }, tasks: 5, ofQueues: [4, 1] });
    expect(await leased(h, A, 1)).toEqual(['b1']);
    expect(await heldOf(h, A, B)).toEqual({ keys: { a: 5, b: 1 }, tasks: 6, ofQueues: [4, 2] });
    await h.update({ dequeue: ['a2', 'a5'].map((pid) => ({ queue: A, pid })) });
    await h.update({ enqueue: [...tasks(A, ['a7'], { delay: 1000 }), ...tasks(B, ['b3'])] });
    expect(await heldOf(h, A, B)).toEqual({ keys: { a: 3, b: 2 }, tasks: 5, ofQueues: [2, 3] });
    await h.clock.advance(1000);
    await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(A)] });
    expect(await heldOf(h, A, B)).toEqual({ keys: { a: 4, b: 2 }, tasks: 6, ofQueues: [3, 3] });
    await h.crash();
    expect(await leased(h, [A, B])).toEqual(['z1', 'plain']);
    expect(await heldOf(h, A, B)).toEqual({ keys: { a: 4, b: 2 }, tasks: 6, ofQueues: [3, 3] });
    await done(h, A, first([a1 ?? first([])]));
    expect(await heldOf(h, A, B)).toEqual({ keys: { b: 2 }, tasks: 2, ofQueues: [0, 2] });
    await limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 2 });
    expect(await heldOf(h, A, B)).toEqual({ keys: {}, tasks: 0, ofQueues: [0, 0] });
    await limitQueues(h.engine, 'shop#*', { keys: 'b', maxLeased: 1 });
    expect(await heldOf(h, A, B)).toEqual({ keys: { b: 2 }, tasks: 2, ofQueues: [0, 2] });
    await h.engine.deleteQueue(parseQueueName(B));
    expect(await heldOf(h, A)).toEqual({ keys: {}, tasks: 0, ofQueues: [0] });
  });

  test('counts the tasks of the only key with very many after a restart, and the first ones of several', async () => {
    await using h = await setUp();
    const many = (key: string) => Array.from({ length: 1200 }, (_, at) => `${key}${1000 + at}`);
    await add(h, A, many('a'));
    await add(h, A, ['b1', 'b2', 'b3']);
    await h.clock.run(h.lease(A, { max: 9, for: 60 * MINUTE }));
    await h.clock.advance(MINUTE);
    await h.crash();
    await leased(h, A);
    expect(await heldOf(h, A)).toEqual({ keys: { a: 1199, b: 2 }, tasks: 1201, ofQueues: [1201] });
    await h.clock.run(h.update({ dequeue: [{ queue: A, pid: 'a1500' }] }));
    await add(h, A, many('c'));
    await h.clock.run(h.lease(A, { max: 9, for: 60 * MINUTE }));
    expect(await heldOf(h, A)).toEqual({ keys: { a: 1198, b: 2, c: 1199 }, tasks: 2399, ofQueues: [2399] });
    await h.clock.advance(MINUTE);
    await h.crash();
    await leased(h, A);
    const { keys, tasks } = await heldOf(h, A);
    expect(keys.b).toBe(2);
    expect(tasks).toBe((keys.a ?? 0) + 2 + (keys.c ?? 0));
    for (const key of ['a', 'c']) {
      expect(keys[key]).toBeGreaterThanOrEqual(1);
      expect(keys[key]).toBeLessThan(1199);
    }
  });

  test('counts each task once in each of several limits, also after a restart', async () => {
    await using h = await setUp();
    await limitQueues(h.engine, A, { keys: 'a', maxLeased: 1 });
    await add(h, A, ['a1', 'a2', 'a3', 'a4']);
    const [a1] = await h.clock.run(h.lease(A, { max: 1, for: 60 * MINUTE }));
    const of = async (queues: string) => {
      const uses = await h.clock.run(h.engine.limits.list('shop'));
      const use = uses.find(({ record }) => record.message.queues === queues);
      return { keys: use?.heldKeyCount, tasks: use?.heldTasks };
    };
    await h.clock.advance(MINUTE);
    await h.crash();
    await leased(h, A);
    for (const queues of ['shop#*', A]) expect(await of(queues)).toEqual({ keys: 1, tasks: 3 });
    await h.update({ dequeue: ['a2', 'a3', 'a4'].map((pid) => ({ queue: A, pid })) });
    for (const queues of ['shop#*', A]) expect(await of(queues)).toEqual({ keys: 0, tasks: 0 });
    await done(h, A, first([a1 ?? first([])]));
  });

  test('is as exact as a count of all leases, whatever happens', async () => {
    await using h = await setUp({ maxLeased: 2 }, { seed: 7 });
    const { random } = h;
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T;
    let leases: { queue: string; task: LeasedTask; until: number }[] = [];
    let enqueued = 0;
    for (let step = 0; step < 400; step++) {
      const queue = pick([A, B]);
      leases = leases.filter(({ until }) => until > h.clock.now());
      const roll = random.next();
      if (roll < 0.4) await add(h, queue, [`${pick(['a', 'b', 'c'])}${1000 + enqueued++}`]);
      else if (roll < 0.7) {
        const got = await h.clock.run(h.lease(queue, { max: 1 + Math.floor(random.next() * 4), for: 5000 }));
        for (const task of got) leases.push({ queue, task, until: task.until });
        const counts = new Map<string, number>();
        for (const { task } of leases) {
          const key = task.pid.replace(/\d+$/, '');
          counts.set(key, (counts.get(key) ?? 0) + 1);
        }
        for (const [key, count] of counts) expect(count, `leases of ${key} at step ${step}`).toBeLessThanOrEqual(2);
        // Both have been read since the last crash.
        await h.clock.run(h.lease([A, B], { max: 1, maxPid: '!' }));
        const waiting = new Map<string, number>();
        for (const name of [A, B]) {
          const peek = { queue: parseQueueName(name), kind: 'head', limit: 1000, includeData: false } as const;
          for (const { pid } of await h.clock.run(h.engine.peekTasks(peek))) {
            const key = pid.replace(/\d+$/, '');
            waiting.set(key, (waiting.get(key) ?? 0) + 1);
          }
        }
        const [use] = await h.clock.run(h.engine.limits.list('shop'));
        for (const { key, available } of use?.heldKeys ?? [])
          expect(available, `tasks behind ${key} at step ${step}`).toBe(waiting.get(key));
        expect(use?.heldTasks).toBe(use?.heldKeys.reduce((sum, { available }) => sum + available, 0));
      } else if (roll < 0.9) {
        const lease = leases.shift();
        if (lease !== undefined) await h.clock.run(done(h, lease.queue, lease.task)).catch(() => {});
      } else if (roll < 0.97) await h.clock.advance(1000);
      else await h.crash();
    }
    // Nothing is left behind: all tasks can be leased and completed, two of each key at a time.
    await h.clock.advance(MINUTE);
    for (let got = 1; got > 0; ) {
      got = 0;
      for (const queue of [A, B]) {
        for (const task of await h.clock.run(h.lease(queue, { max: 9 }))) {
          await h.clock.run(done(h, queue, task));
          got++;
        }
      }
    }
    expect([await h.counts(A), await h.counts(B)].map(({ available, leased }) => available + leased)).toEqual([0, 0]);
    await h.clock.advance(MINUTE);
    expect(h.disk.rowsOf(Family.due)).toEqual([]);
  });
});

describe('fair turns', () => {
  /** Workers take the next task when they are done. `ms`: how long tasks of a key take. Returns how many of each were done. */
  async function work(h: EngineHarness, workers: number, forMs: number, ms: (key: string) => number) {
    const counts = new Map<string, number>();
    const busy: { readonly task: LeasedTask; readonly until: number }[] = [];
    const end = h.clock.now() + forMs;
    while (h.clock.now() < end) {
      while (busy.length < workers) {
        const [task] = await h.clock.run(h.lease(A, { for: 60 * MINUTE }));
        if (task === undefined) break;
        const key = task.pid.replace(/\d+$/, '');
        counts.set(key, (counts.get(key) ?? 0) + 1);
        busy.push({ task, until: h.clock.now() + ms(key) });
      }
      busy.sort((a, b) => a.until - b.until);
      const [next] = busy;
      if (next === undefined) break;
      await h.clock.advance(Math.max(0, next.until - h.clock.now()));
      busy.shift();
      await done(h, A, next.task);
    }
    for (const { task } of busy) await done(h, A, task);
    return counts;
  }

  const many = (key: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${key}${1000 + at}`);

  test('take the same number of equal tasks of each key, whatever their backlogs are', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: {} } });
    await add(h, A, many('a', 300));
    await add(h, A, many('b', 40));
    await h.enqueue(A, many('z', 40));
    const counts = await work(h, 3, 10_000, () => 1000);
    for (const key of ['a', 'b', 'z']) expect(counts.get(key)).toBeGreaterThanOrEqual(9);
  });

  test('share the time of workers, also when the tasks of one key take much longer', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: {} } });
    await add(h, A, many('a', 100));
    await add(h, A, many('b', 900));
    const counts = await work(h, 10, 60_000, (key) => (key === 'a' ? 80_000 : 400));
    // Half of the ten workers for a minute, after the moment in which nothing was known of their times.
    expect(counts.get('b')).toBeGreaterThan(700);
    expect(counts.get('a')).toBeGreaterThanOrEqual(5);
  });

  test('follow weights at once', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: { 'a*': 3 } } });
    await add(h, A, many('a', 200));
    await add(h, A, many('b', 200));
    const before = await work(h, 4, 20_000, () => 1000);
    expect((before.get('a') ?? 0) / (before.get('b') ?? 1)).toBeCloseTo(3, 0);
    await putSettings(h.engine, A, { fairTurns: { weights: { b: 3 } } });
    const after = await work(h, 4, 20_000, () => 1000);
    expect((after.get('b') ?? 0) / (after.get('a') ?? 1)).toBeCloseTo(3, 0);
  });

  test('give a key that comes back its turn, and nothing to catch up on', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: {} } });
    await add(h, A, many('a', 300));
    await work(h, 2, 30_000, () => 1000);
    await add(h, A, many('b', 100));
    const counts = await work(h, 2, 20_000, () => 1000);
    expect(counts.get('a')).toBeGreaterThanOrEqual(18);
    expect(counts.get('b')).toBeGreaterThanOrEqual(18);
  });

  test('go on after a crash, and skip a key whose limit is used up', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, A, { fairTurns: { weights: {} } });
    await limitQueues(h.engine, A, { keys: 'a', maxLeased: 1 });
    await add(h, A, [...many('a', 5), ...many('b', 5)]);
    await h.clock.advance(1000);
    await h.crash();
    expect((await leased(h, A, 4)).map((pid) => pid[0]).join('')).toBe('abbb');
  });
});
