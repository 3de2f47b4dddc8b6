import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../../domain/commands.ts';
import { Family } from '../../ports/store.ts';
import { type EngineHarness, engineHarness, type HarnessOptions, pidsOf } from '../../testing/engine-harness.ts';
import { limitQueues } from '../../testing/limit-queues.ts';
import { pauseQueues, resumeQueues } from '../../testing/pause-queues.ts';
import { putSettings } from '../../testing/put-settings.ts';

const A = 'shop#a';
const B = 'shop#b';
const MINUTE = 60_000;

/** Tasks with these PIDs, whose limit keys are the letters before their numbers. */
const add = (h: EngineHarness, queue: string, pids: readonly string[]) =>
  h.clock.run(
    h.update({
      enqueue: pids.map((pid) => ({ queue, pid, data: pid, limitKey: pid.replace(/\d+$/, '') })),
    }),
  );

const lease = (h: EngineHarness, queues: string | string[], max = 9, ms = MINUTE): Promise<readonly LeasedTask[]> =>
  h.clock.run(h.lease(queues, { max, for: ms }));

const leased = async (h: EngineHarness, queues: string | string[], max = 9): Promise<string[]> =>
  pidsOf(await lease(h, queues, max));

const done = (h: EngineHarness, queue: string, ...pids: string[]) =>
  h.clock.run(h.update({ dequeue: pids.map((pid) => ({ queue, pid })) }));

const many = (key: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${key}${1000 + at}`);

/** A lease request that waits, and the name under which it notes that it has got a task. */
function waiting(h: EngineHarness, queue: string, name: string, served: string[], max = 1): void {
  void h.lease(queue, { max, wait: 60 * MINUTE, for: 60 * MINUTE }).then(
    (tasks) => void served.push(`${name}: ${pidsOf(tasks)}`),
    (error: { reason: string }) => void served.push(`${name}: ${error.reason}`),
  );
}

async function limited(limit: object = { maxLeased: 1 }, options: HarnessOptions = {}): Promise<EngineHarness> {
  const h = await engineHarness(options);
  await h.clock.run(limitQueues(h.engine, 'shop#*', { keys: '*', ...limit }));
  return h;
}

const heldBy = async (h: EngineHarness, queue: string) => {
  const { queues } = await h.clock.run(h.engine.queueStats({ kind: 'named', queues: [parseQueueName(queue)] }));
  return queues[0]?.heldBy[0];
};

describe('a limit of keys', () => {
  test('has the payloads of the next tasks in memory, and reads those of later ones ahead', async () => {
    await using h = await limited({ maxLeased: 5000 });
    // More than are kept in memory.
    const pids = many('a', 4110);
    await add(h, A, pids);
    const replaced = { queue: A, pid: 'a1001', data: 'new', mode: EnqueueMode.ENQUEUE_MODE_REPLACE, limitKey: 'a' };
    await h.clock.run(h.update({ enqueue: [replaced] }));
    const { coldReads } = h.engine.figures();
    const tasks = [...(await lease(h, A, 2000)), ...(await lease(h, A, 2000)), ...(await lease(h, A, 2000))];
    const data = tasks.map((task) => Buffer.from(task.data).toString());
    expect(data.toSorted()).toEqual(pids.with(1, 'new').toSorted());
    expect(h.engine.figures().coldReads - coldReads).toBe(0);
  });

  test('leases no task twice whose key had no tasks while it got a token', async () => {
    await using h = await limited({ maxLeased: 0, rate: { tasks: 1, perMs: 1000, burst: 2 } });
    await add(h, A, ['a1', 'a2']);
    expect(await leased(h, A)).toEqual(['a1', 'a2']);
    await done(h, A, 'a1', 'a2');
    await h.clock.advance(1000);
    await add(h, A, ['a3', 'a4']);
    expect(await leased(h, A)).toEqual(['a3']);
    expect(await leased(h, A)).toEqual([]);
    await h.clock.advance(1000);
    expect(await leased(h, A)).toEqual(['a4']);
  });

  test('goes on after a restart when the tasks of another queue have gone before anybody looked at them', async () => {
    await using h = await limited();
    await add(h, A, ['a1']);
    await add(h, B, ['b1']);
    await h.clock.advance(MINUTE);
    await h.crash();
    await done(h, A, 'a1');
    expect(await leased(h, B)).toEqual(['b1']);
  });

  test.each([0, MINUTE])('says that the tasks of another queue are damaged, with a wait of %i ms', async (wait) => {
    await using h = await limited({ maxLeased: 1 }, { readMs: 10 });
    await add(h, A, ['a1']);
    await add(h, B, ['b1']);
    await h.clock.run(h.close());
    await h.open();
    let damaged = 0;
    const ofA = h.disk.rowsOf(Family.due).filter(({ key }) => key.endsWith('a1'));
    for (const { key } of ofA) {
      h.disk.corrupt(Family.due, key);
      damaged++;
    }
    expect(damaged).toBeGreaterThan(0);
    let reason = '';
    void h.lease(B, { wait }).catch((error: { reason: string }) => {
      reason = error.reason;
    });
    await h.clock.advance(1000);
    expect(reason).toBe('CORRUPT_DATA');
  });

  test('serves the requests for its queues in the order in which they came', async () => {
    await using h = await limited();
    await add(h, A, ['a1', 'a2', 'a3']);
    await add(h, B, ['a4', 'a5', 'a6']);
    expect(await leased(h, A, 1)).toEqual(['a1']);
    const served: string[] = [];
    waiting(h, B, 'first', served);
    waiting(h, A, 'second', served);
    waiting(h, B, 'third', served);
    await h.clock.advance(1000);
    expect(served).toEqual([]);
    await done(h, A, 'a1');
    expect(served).toEqual(['first: a4']);
    await done(h, B, 'a4');
    expect(served).toEqual(['first: a4', 'second: a2']);
    await done(h, A, 'a2');
    expect(served).toEqual(['first: a4', 'second: a2', 'third: a5']);
  });

  test('says since when it holds keys back, whatever other limits are set meanwhile', async () => {
    await using h = await limited();
    await add(h, A, ['a1', 'a2']);
    await leased(h, A);
    const since = h.clock.now();
    await h.clock.advance(5000);
    await h.clock.run(limitQueues(h.engine, 'shop#a', { maxLeased: 100 }));
    await h.clock.run(limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 1 }));
    expect(await heldBy(h, A)).toMatchObject({ heldKeys: [{ key: 'a', leased: 1, usedUpSince: since }] });
    await h.clock.run(limitQueues(h.engine, 'shop#*', { keys: '*', maxLeased: 2, rate: undefined }));
    expect(await heldBy(h, A)).toBeUndefined();
  });

  test('holds back no key whose last available task has gone', async () => {
    await using h = await limited();
    await add(h, A, many('a', 40));
    const [first = ''] = await leased(h, A);
    expect((await h.engine.limits.list('shop'))[0]?.heldKeys).toHaveLength(1);
    for (const pid of many('a', 40)) if (pid !== first) await done(h, A, pid);
    expect(await h.counts(A)).toEqual({ available: 0, leased: 1, delayed: 0 });
    expect((await h.engine.limits.list('shop'))[0]?.heldKeys).toEqual([]);
  });

  test('that names a key as well as another one is the same after a restart', async () => {
    await using h = await engineHarness();
    await limitQueues(h.engine, A, { keys: 'x*', maxLeased: 3 });
    await limitQueues(h.engine, A, { keys: '*x', maxLeased: 1 });
    await add(h, A, ['x1', 'x2', 'x3', 'x4', 'x5']);
    const before = await leased(h, A);
    await h.clock.run(h.engine.resetLeases(parseQueueName(A)));
    await h.crash();
    expect(await leased(h, A)).toEqual(before);
  });

  test('wakes those who wait for a queue that was paused while its key got a slot', async () => {
    await using h = await limited();
    await add(h, A, ['a1', 'a2']);
    await leased(h, A);
    const served: string[] = [];
    waiting(h, A, 'first', served);
    await h.clock.run(pauseQueues(h.engine, A, {}));
    await done(h, A, 'a1');
    await h.clock.advance(1000);
    expect(served).toEqual([]);
    await h.clock.run(resumeQueues(h.engine, A));
    await h.clock.advance(1);
    expect(served).toEqual(['first: a2']);
  });
});

describe('the tasks of many keys', () => {
  test('take no more memory than the cache has, and none is lost', async () => {
    const cacheBytes = 100_000;
    await using h = await engineHarness({ config: { cacheBytes } });
    await h.clock.run(limitQueues(h.engine, 'shop#*', { keys: 'k1*', maxLeased: 1 }));
    const pids = Array.from({ length: 1500 }, (_, at) => `${String(at).padStart(4, '0')}`);
    const enqueue = pids.map((pid) => ({ queue: A, pid, data: pid, limitKey: `k${Number(pid) % 500}` }));
    await h.clock.run(h.update({ enqueue }));
    expect(h.engine.figures().cacheBytes).toBeLessThanOrEqual(cacheBytes);
    const got = new Set<string>();
    for (let tasks = await lease(h, A, 100); tasks.length > 0; tasks = await lease(h, A, 100)) {
      for (const { pid } of tasks) got.add(pid);
      await done(h, A, ...pidsOf(tasks));
      expect(h.engine.figures().cacheBytes).toBeLessThanOrEqual(cacheBytes);
    }
    expect([...got].sort()).toEqual(pids);
  });
});

describe('fair turns', () => {
  const fair = async () => {
    const h = await engineHarness();
    await h.clock.run(putSettings(h.engine, A, { fairTurns: { weights: {} } }));
    return h;
  };

  /** Workers take the next task when they are done, for so long. Returns the lease time of each key, in ms. */
  async function work(h: EngineHarness, workers: number, forMs: number, msOf: (key: string) => number, again?: string) {
    const spent = new Map<string, number>();
    const busy: { readonly task: LeasedTask; readonly until: number }[] = [];
    const end = h.clock.now() + forMs;
    let added = 0;
    while (h.clock.now() < end) {
      while (busy.length < workers) {
        const [task] = await lease(h, A, 1, 60 * MINUTE);
        if (task === undefined) break;
        const key = task.pid.replace(/\d+$/, '');
        const ms = msOf(key);
        spent.set(key, (spent.get(key) ?? 0) + Math.min(ms, end - h.clock.now()));
        busy.push({ task, until: h.clock.now() + ms });
      }
      busy.sort((a, b) => a.until - b.until);
      const [next] = busy;
      if (next === undefined) break;
      await h.clock.advance(Math.max(0, next.until - h.clock.now()));
      busy.shift();
      await done(h, A, next.task.pid);
      if (again !== undefined && next.task.pid.startsWith(again)) await add(h, A, [`${again}${2000 + added++}`]);
    }
    for (const { task } of busy) await done(h, A, task.pid);
    return spent;
  }

  const share = (spent: ReadonlyMap<string, number>, key: string): number => {
    let all = 0;
    for (const ms of spent.values()) all += ms;
    return (spent.get(key) ?? 0) / all;
  };

  test('count no time before a restart, also of tasks that are leased then', async () => {
    await using h = await fair();
    await h.clock.advance(2 * MINUTE);
    await add(h, A, [...many('a', 30), ...many('b', 30)]);
    expect(pidsOf(await lease(h, A, 1, 60 * MINUTE))).toEqual(['a1000']);
    await h.clock.advance(MINUTE);
    await h.crash();
    const spent = await work(h, 2, 15_000, () => 1000);
    // The lease from before is one of its three.
    expect(share(spent, 'a')).toBeCloseTo(0.25, 0);
    expect(spent.get('a')).toBeGreaterThan(3000);
  });

  test('count from when they are set, also of tasks that are leased then, and of those without a key', async () => {
    await using h = await engineHarness();
    await h.clock.advance(2 * MINUTE);
    await h.enqueue(A, many('z', 30));
    await lease(h, A, 1, 60 * MINUTE);
    await add(h, A, [...many('a', 30), ...many('b', 30)]);
    await h.clock.advance(MINUTE);
    await lease(h, A, 1, 60 * MINUTE);
    await h.clock.run(putSettings(h.engine, A, { fairTurns: { weights: {} } }));
    const spent = await work(h, 3, 15_000, () => 1000);
    // The other two have a lease from before.
    for (const key of ['a', 'z']) expect(share(spent, key), key).toBeGreaterThan(0.1);
    expect(share(spent, 'b')).toBeGreaterThan(0.4);
  });

  test('give tasks without a key that come later no time to catch up on', async () => {
    await using h = await fair();
    await add(h, A, many('a', 90));
    await work(h, 1, 20_000, () => 1000);
    await h.enqueue(A, many('z', 40));
    const spent = await work(h, 1, 20_000, () => 1000);
    expect(share(spent, 'a')).toBeCloseTo(0.5, 1);
  });

  test.each(['b', ''])('remember a key with one long task at a time, beside tasks with the key "%s"', async (other) => {
    await using h = await fair();
    const short = many('b', 300);
    if (other === '') await h.enqueue(A, short);
    else await add(h, A, short);
    await add(h, A, ['a1']);
    const spent = await work(h, 1, 60_000, (key) => (key === 'a' ? 5000 : 200), 'a');
    expect(spent.get('a')).toBeGreaterThan(0);
    expect(share(spent, 'b')).toBeGreaterThan(0.45);
  });

  test('give a request for many tasks those of all keys', async () => {
    await using h = await fair();
    await add(h, A, many('a', 90));
    expect(await leased(h, A, 1)).toEqual(['a1000']);
    await h.clock.advance(10);
    await done(h, A, 'a1000');
    await add(h, A, many('b', 90));
    const keys = (await leased(h, A, 60)).map((pid) => pid[0]);
    expect(keys.filter((key) => key === 'a').length).toBeGreaterThan(15);
    expect(keys.filter((key) => key === 'b').length).toBeGreaterThan(15);
  });

  test('leave workers to short tasks when those of another key, which take much longer, end at once', async () => {
    await using h = await fair();
    await add(h, A, many('a', 100));
    await add(h, A, many('b', 600));
    await h.clock.advance(1);
    // Now it is known how long they take. Then all ten workers become free in one moment, and a key is a little behind.
    await work(h, 10, 6000, (key) => (key === 'a' ? 4000 : 100));
    const keys = (await leased(h, A, 10)).map((pid) => pid[0]);
    expect(keys.filter((key) => key === 'b').length).toBeGreaterThanOrEqual(5);
  });

  test('apply a new weight to the time from then on', async () => {
    await using h = await fair();
    await add(h, A, [...many('a', 60), ...many('b', 60)]);
    await work(h, 2, 400, () => 100);
    expect((await leased(h, A, 2)).map((pid) => pid[0]).sort()).toEqual(['a', 'b']);
    await h.clock.run(putSettings(h.engine, A, { fairTurns: { weights: { a: 100 } } }));
    await h.clock.advance(10_000);
    // No task has changed since, and what was spent counted a hundredth for one of the keys.
    await h.clock.run(putSettings(h.engine, A, { fairTurns: { weights: {} } }));
    const keys = (await leased(h, A, 10)).map((pid) => pid[0]);
    expect(keys.join('')).toBe('aaaaaaaaaa');
  });
});
