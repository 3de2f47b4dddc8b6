import { describe, expect, test } from 'vitest';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const slowReads = { readMs: 20, config: { cacheBytes: 2048, minRefillTasks: 1, maxRefillTasks: 1 } };
const name = (queue: string) => ({ group: '', name: queue });

describe('a lease request that meets a read of another operation', () => {
  test('continues when the refill that a peek started has ended', async () => {
    await using h = await engineHarness(slowReads);
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.crash();
    const peek = h.engine.peekTasks({ queue: name('mail'), kind: 'head', limit: 2, includeData: false });
    await h.clock.advance(1);
    const lease = h.lease('mail');
    expect(pidsOf(await h.clock.run(lease, 10_000))).toEqual(['a']);
    await h.clock.run(peek);
  });

  test('continues when the search for expired leases that a count started finds none', async () => {
    await using h = await engineHarness(slowReads);
    await h.clock.run(h.enqueue('mail', ['a']));
    const [a] = await h.clock.run(h.lease('mail', { for: 100 }));
    await h.clock.run(h.update({ renew: [{ queue: 'mail', pid: 'a', token: a?.token, for: 100_000 }] }));
    await h.clock.advance(1000);
    const counts = h.counts('mail');
    const lease = h.lease('mail');
    expect(await h.clock.run(lease, 10_000)).toEqual([]);
    expect(await h.clock.run(counts)).toMatchObject({ leased: 1 });
  });

  test('gets all tasks of its queues, even if it is tried many times while one of them is read', async () => {
    await using h = await engineHarness({ readMs: 20 });
    await h.clock.run(h.enqueue('second', ['x']));
    await h.crash();
    const lease = h.lease(['first', 'second', 'third'], { max: 10 });
    await h.clock.run(h.enqueue('first', ['a']));
    expect(pidsOf(await h.clock.run(lease))).toEqual(['a', 'x']);
  });

  test('is served while a request ahead of it waits for the read of another queue', async () => {
    await using h = await engineHarness({ readMs: 20 });
    await h.clock.run(h.enqueue('other', ['x']));
    const [x] = await h.clock.run(h.lease('other', { for: 100 }));
    await h.clock.run(h.update({ renew: [{ queue: 'other', pid: 'x', token: x?.token, for: 1e6 }] }));
    const bounded = h.lease(['mail', 'other'], { wait: 60_000, maxPid: 'c' });
    const behind = h.lease('mail', { wait: 60_000 });
    await h.clock.advance(100);
    await h.enqueue('mail', ['z']);
    expect(pidsOf(await h.clock.run(behind, 1000))).toEqual(['z']);
    await h.clock.advance(60_000);
    expect(await bounded).toEqual([]);
  });
});

describe('a lease over many queues that are not in memory', () => {
  test('reads them in parallel and gets all tasks it asked for', async () => {
    await using h = await engineHarness({ readMs: 20 });
    const queues = Array.from({ length: 200 }, (_, number) => `queue-${number}`);
    for (const queue of queues) await h.clock.run(h.enqueue(queue, ['a']));
    await h.crash();
    const before = h.clock.now();
    expect(await h.clock.run(h.lease(queues, { max: 150 }))).toHaveLength(150);
    // Each refill reads states, then payloads. In sequence all reads would take six seconds.
    expect(h.clock.now() - before).toBeLessThan(600);
    expect(await h.clock.run(h.lease(queues, { max: 150 }))).toHaveLength(50);
  });
});

describe('an empty answer', () => {
  test('waits until the change that took the last task is durable', async () => {
    await using h = await engineHarness({ syncMs: 10 });
    await h.clock.run(h.enqueue('mail', ['a']));
    const completed = h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] });
    let answered = false;
    const asked = h.lease('mail').then((tasks) => {
      answered = true;
      return tasks;
    });
    await h.clock.advance(9);
    expect(answered, 'a crash now would bring the task back').toBe(false);
    await h.clock.run(completed);
    expect(await asked).toEqual([]);
  });
});

describe('a lease request that waits', () => {
  test('gets a task whose lease expires after memory was rebuilt', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    await h.lease('mail', { for: 10_000 });
    const waiting = h.lease('mail', { wait: 60_000 });
    h.disk.space = 'none';
    await expect(h.engine.deleteQueue(name('other'))).resolves.toBe(0);
    await expect(h.update({ renew: [{ queue: 'mail', pid: 'a', for: 10_000 }] })).rejects.toMatchObject({
      reason: 'DISK_FULL',
    });
    h.disk.space = 'plenty';
    await h.clock.advance(11_000);
    expect(pidsOf(await h.clock.run(waiting))).toEqual(['a']);
  });

  test('is not overtaken in the line of one queue while it waits for the read of another', async () => {
    await using h = await engineHarness({ readMs: 20 });
    await h.clock.run(h.enqueue('a', ['x', 'y']));
    await h.clock.run(h.enqueue('b', ['z']));
    await h.clock.run(h.update({ dequeue: [{ queue: 'b', pid: 'z' }] }));
    await h.crash();
    const first = h.lease(['a', 'b'], { wait: 60_000, maxPid: 'm' });
    await h.enqueue('b', ['b1']);
    const newcomer = h.lease('b');
    expect(pidsOf(await h.clock.run(first, 5000))).toEqual(['b1']);
    expect(await h.clock.run(newcomer)).toEqual([]);
  });
});

test.each([
  ['with rows of its tasks', false],
  ['with tasks that have no rows yet', true],
])('a busy queue %s is read ahead early enough: no request waits for the store', async (_which, flows) => {
  await using h = await engineHarness({ readMs: 20, config: { minRefillTasks: 10, maxRefillTasks: 10 } });
  if (flows) {
    await h.clock.run(h.enqueue('mail', ['first']));
    await h.clock.run(h.lease('mail'));
  }
  const pids = Array.from({ length: 60 }, (_, at) => String(at).padStart(2, '0'));
  await h.clock.run(h.enqueue('mail', pids));
  await h.crash();
  await h.clock.run(h.lease('mail'));
  for (const pid of pids.slice(1)) {
    await h.clock.advance(4);
    const asked = h.clock.now();
    expect(pidsOf(await h.clock.run(h.lease('mail')))).toEqual([pid]);
    expect(h.clock.now() - asked).toBe(0);
  }
});

describe('a lease request that is the first in a long time', () => {
  test.each([
    [
      'a delay',
      async (h: EngineHarness) => void (await h.update({ enqueue: [{ queue: 'mail', pid: 'a', delay: 200 }] })),
    ],
    [
      'a lease',
      async (h: EngineHarness) => {
        await h.enqueue('mail', ['a']);
        await h.lease('mail', { for: 200 });
      },
    ],
  ])('gets a task that %s has hidden, although others are available', async (_what, hide) => {
    for (const wait of [0, 60_000]) {
      await using h = await engineHarness({ readMs: 20 });
      await h.clock.run(hide(h));
      await h.clock.run(h.enqueue('mail', ['b']));
      await h.clock.advance(1_200);
      expect(pidsOf(await h.clock.run(h.lease('mail', { max: 10, wait })))).toEqual(['a', 'b']);
    }
  });

  test('gets due tasks of all its queues', async () => {
    await using h = await engineHarness({ readMs: 20 });
    const queues = ['x', 'y', 'z'];
    for (const queue of queues) {
      await h.clock.run(
        h.update({
          enqueue: [
            { queue, pid: 'a', delay: 200 },
            { queue, pid: 'b' },
          ],
        }),
      );
    }
    await h.clock.advance(1_200);
    const tasks = await h.clock.run(h.lease(queues, { max: 10 }));
    expect(tasks.map(({ queue, pid }) => `${queue.name} ${pid}`)).toEqual(['x a', 'x b', 'y a', 'y b', 'z a', 'z b']);
  });

  test('waits for one search at most, also if tasks become due all the time', async () => {
    await using h = await engineHarness({ readMs: 20 });
    const delays = Array.from({ length: 500 }, (_, at) => at);
    await h.clock.run(
      h.update({
        enqueue: [{ queue: 'mail', pid: 'b' }, ...delays.map((delay) => ({ queue: 'mail', pid: `d${delay}`, delay }))],
      }),
    );
    await h.clock.advance(250);
    const before = h.clock.now();
    expect(pidsOf(await h.clock.run(h.lease('mail')))).toEqual(['b']);
    expect(h.clock.now() - before).toBeLessThan(200);
  });
});

describe('a short wait', () => {
  test('gets the tasks that its first look finds, however long the look takes', async () => {
    await using h = await engineHarness({ readMs: 20 });
    await h.clock.run(h.enqueue('mail', ['a', 'b', 'c']));
    await h.crash();
    const leases = [1, 2, 60_000].map((wait) => h.lease('mail', { wait }));
    expect((await h.clock.run(Promise.all(leases))).map(pidsOf)).toEqual([['a'], ['b'], ['c']]);
  });

  test('ends with nothing after a look that finds nothing', async () => {
    await using h = await engineHarness({ readMs: 20 });
    await h.clock.run(h.enqueue('mail', ['a']));
    await h.crash();
    const leases = [60_000, 1, 1].map((wait) => h.lease('mail', { wait }));
    expect((await h.clock.run(Promise.all(leases), 1_000)).map(pidsOf)).toEqual([['a'], [], []]);
    expect(h.engine.figures().waiters).toBe(0);
  });
});

test('a wait that ends while expired leases are searched, for the first look of its request, is answered', async () => {
  await using h = await engineHarness({ readMs: 25 });
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', retry: { maxAttempts: 1 } }] });
  await h.crash();
  const first = h.lease('g#q', { for: 440, wait: 500 });
  // It does not look: the first request takes the only task when it has been read.
  let answer: readonly string[] | undefined;
  void h.lease('g#q', { wait: 500 }).then((tasks) => (answer = pidsOf(tasks)));
  expect(pidsOf(await h.clock.run(first))).toEqual(['p']);
  await h.clock.advance(1000);
  expect(answer).toEqual([]);
});
