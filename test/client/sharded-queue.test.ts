import { type LeasedTask, pidOf, TaskNotFoundError } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { only, overloaded } from '@taskmaster/client/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

interface Order {
  readonly id: number;
}

const pids = Array.from({ length: 24 }, (_, at) => `order-${String(at).padStart(2, '0')}`);

function setUp(shards = 4) {
  const made = clientSetUp();
  const orders = made.client.shardedQueue<Order>('shop#orders', { shards });
  const countsOf = (upTo: number) =>
    Promise.all(
      Array.from({ length: upTo }, async (_, shard) => (await made.engine.pids(`shop~${shard}#orders`)).length),
    );
  return { ...made, orders, countsOf };
}

async function withOrders(shards?: number) {
  const made = setUp(shards);
  await made.orders.enqueueMany(pids.map((pid, id) => ({ pid, data: { id } })));
  return made;
}

test('a lease of a sharded queue has the tasks first that count as begun', async () => {
  const { orders } = await withOrders();
  const leased = await orders.lease({ max: pids.length, starts: { now: 1 } });
  expect(leased.map(({ unbegun }) => unbegun)).toEqual(pids.map((_, at) => (at === 0 ? undefined : 0)));
  // By their PIDs, another one would be the first.
  expect(leased[0]?.data.id).toBeGreaterThan(0);
});

describe('an enqueue of a sharded queue', () => {
  test('with a PID goes to the shard of the PID, so that the PID is there once', async () => {
    const { orders, engine } = setUp();
    expect((await orders.enqueue({ id: 1 }, { pid: 'order-17' })).result).toBe('created');
    expect((await orders.enqueue({ id: 2 }, { pid: 'order-17' })).result).toBe('collapsed');
    expect(await engine.pids(orders.shardOf('order-17').name)).toEqual(['order-17']);
  });

  test('with a key goes to the shard of the key, so that the key is there once', async () => {
    const { orders, engine } = setUp();
    const key = 'order-17';
    for (const place of ['5-order-17', '1-order-17', '3-order-17']) {
      await orders.enqueue({ id: 1 }, { pid: place, key, mode: 'replace' });
    }
    expect(await engine.pids(orders.shardOf(key).name)).toEqual(['3-order-17']);
    expect((await orders.stats()).available).toBe(1);
    expect((await orders.get(['3-order-17']))[0]).toMatchObject({ state: 'available', key });
  });

  test('without a PID goes to the next shard', async () => {
    const { orders, countsOf } = setUp();
    for (let id = 0; id < 10; id++) await orders.enqueue({ id });
    expect((await countsOf(4)).toSorted()).toEqual([2, 2, 3, 3]);
  });

  test('of many has its outcomes in order, and the tasks of a shard theirs', async () => {
    const { orders, client } = setUp();
    const items = [...pids, ...pids].map((pid, id) => ({ pid, data: { id } }));
    const outcomes = await orders.enqueueMany([...items, { data: { id: 99 } }, { data: { id: 100 } }]);
    expect(outcomes.slice(0, 48).map(({ pid, result }) => `${pid} ${result}`)).toEqual([
      ...pids.map((pid) => `${pid} created`),
      ...pids.map((pid) => `${pid} collapsed`),
    ]);
    expect(outcomes).toHaveLength(50);
    expect((await client.stats()).totals.available).toBe(26);
  });

  test('repeated with its request id changes nothing', async () => {
    const { orders, countsOf } = setUp();
    const items = Array.from({ length: 10 }, (_, id) => ({ data: { id } }));
    const first = await orders.enqueueMany(items, { requestId: 'r1' });
    expect(await orders.enqueueMany(items, { requestId: 'r1' })).toEqual(first);
    const one = await orders.enqueue({ id: 11 }, { requestId: 'r2' });
    expect(await orders.enqueue({ id: 11 }, { requestId: 'r2' })).toEqual(one);
    expect((await countsOf(4)).reduce((sum, count) => sum + count, 0)).toBe(11);
  });

  test('of many rejects if a shard refuses its tasks; other shards may have theirs', async () => {
    const { orders, transport, countsOf } = setUp();
    transport.faults.updateTasks.push({ when: 'before', error: makeError('no', { reason: 'INVALID_QUEUE' }) });
    await expect(orders.enqueueMany(pids.map((pid, id) => ({ pid, data: { id } })))).rejects.toMatchObject({
      reason: 'INVALID_QUEUE',
    });
    expect((await countsOf(4)).filter((count) => count === 0)).toHaveLength(1);
  });

  test('sends dead letters to the queue of the same shard', async () => {
    const { orders, client, engine } = setUp();
    const retry = { maxAttempts: 1, deadLetterQueue: 'shop#failed' };
    await orders.enqueue({ id: 1 }, { pid: 'order-17', retry });
    await only(await orders.lease()).release();
    const failed = client.shardedQueue('shop#failed', { shards: 4 });
    expect(await engine.pids(failed.shardOf('order-17').name)).toEqual(['order-17']);
    await expect(
      orders.enqueue({ id: 1 }, { retry: { maxAttempts: 1, deadLetterQueue: 'other#failed' } }),
    ).rejects.toBeInstanceOf(TypeError);
  });
});

describe('a lease of a sharded queue', () => {
  test('is one request for all shards, and its tasks have the order of their PIDs', async () => {
    const { orders, engine } = await withOrders();
    const tasks = await orders.lease({ max: 100, wait: '1s' });
    expectTypeOf(tasks).toEqualTypeOf<LeasedTask<Order>[]>();
    expect(tasks.map(({ pid }) => String(pid))).toEqual(pids);
    await orders.lease();
    const asked = engine.leases.map(({ queues }) => queues.map((name) => Number(/~(\d)/.exec(name)?.[1])));
    expect(asked).toEqual([
      [2, 3, 0, 1],
      [0, 1, 2, 3],
    ]);
    expect(engine.leases.map(({ anyOrder }) => anyOrder)).toEqual([true, true]);
  });

  test('takes all shards forward together, also those with more tasks', async () => {
    const { client } = setUp();
    const numbers = client.shardedQueue<number>('numbers', { shards: 4 });
    const count = 400;
    // The shard 0 has five of eight tasks.
    for (let number = 0; number < count; number++) {
      const shard = number % 2 === 0 ? 0 : ((number - 1) / 2) % 4;
      await numbers.shard(shard).enqueue(number, { pid: pidOf(number) });
    }
    const late: number[] = [];
    for (let place = 0; place < count; place++) late.push(Math.abs(only(await numbers.lease()).data - place));
    const mean = late.reduce((sum, one) => sum + one, 0) / count;
    expect(mean).toBeLessThan(4);
    expect(Math.max(...late)).toBeLessThan(4 * 4);
  });

  test('asks only the shard from which it takes its tasks while the queue is busy, then all of them again', async () => {
    const { orders, engine } = await withOrders();
    const counts = async (max: number): Promise<number[]> => {
      engine.leases.length = 0;
      await orders.lease({ max, wait: '1s' });
      return engine.leases.map(({ queues }) => queues.length);
    };
    expect(await counts(1)).toEqual([4]);
    expect(await counts(1)).toEqual([1]);
    // The shard has too few: the others are asked for the rest.
    expect(await counts(20)).toEqual([1, 4]);
    expect(await counts(20)).toEqual([4]);
  });

  test('asks all other shards if the one that it asks alone does not answer, and leaves it to them for a while', async () => {
    const { orders, transport, engine } = await withOrders();
    await orders.lease();
    transport.faults.leaseTasks.push({ when: 'before', error: makeError('no', { reason: 'INVALID_QUEUE' }) });
    engine.leases.length = 0;
    expect(await orders.lease()).toHaveLength(1);
    expect(engine.leases.map(({ queues }) => queues.length)).toEqual([4]);
    const failed = engine.leases[0]?.queues[0];
    for (let lease = 0; lease < 8; lease++) {
      engine.leases.length = 0;
      expect(await orders.lease()).toHaveLength(1);
      expect(engine.leases[0]?.queues[0]).not.toBe(failed);
    }
  });

  test('keeps the tasks of one shard if the others do not answer', async () => {
    const { orders, transport } = await withOrders();
    await orders.lease();
    transport.faults.leaseTasks.push(undefined, {
      when: 'before',
      error: makeError('no', { reason: 'INVALID_QUEUE' }),
    });
    expect((await orders.lease({ max: 20 })).length).toBeGreaterThan(0);
    await expect(orders.lease({ max: 0 })).rejects.toBeInstanceOf(TypeError);
  });

  test('finds an urgent task of any shard soon', async () => {
    const { orders } = await withOrders(4);
    for (let shard = 0; shard < 4; shard++) {
      await orders.lease({ max: 2 });
      await orders.shard(shard).enqueue({ id: -1 }, { pid: '!' });
      let leases = 1;
      while (only(await orders.lease()).data.id !== -1) leases++;
      expect(leases).toBeLessThanOrEqual(16);
    }
  });

  test('waits as long as it is told, also beyond the next look for shards', async () => {
    const { orders, timing } = setUp();
    const begun = timing.now();
    const leasing = orders.lease({ wait: '35s' }).then((tasks) => [tasks.length, timing.now() - begun]);
    await timing.advance(60_000);
    expect(await leasing).toEqual([0, 35_000]);
  });

  test('waits at all shards', async () => {
    const { orders, timing } = setUp();
    const leasing = orders.lease({ wait: '30s' });
    await timing.advance(1_000);
    await orders.enqueue({ id: 7 }, { pid: 'order-17' });
    expect(only(await leasing).data).toEqual({ id: 7 });
  });

  test('among other queues keeps the order of the queues', async () => {
    const { client, orders, engine } = await withOrders();
    await client.queue('shop#urgent').enqueue(1);
    await client.lease({ queues: ['shop#urgent', orders, 'shop#late'] });
    const [request] = engine.leases;
    expect([request?.queues[0], request?.queues.at(-1), request?.queues.length]).toEqual([
      'shop#urgent',
      'shop#late',
      6,
    ]);
    expect(request?.anyOrder).toBe(false);
  });

  test('is what a worker makes, and follow-up tasks stay in the shard', async () => {
    const { client, orders, engine } = await withOrders();
    const sent = client.shardedQueue<string>('shop#sent', { shards: 4 });
    const done = Promise.withResolvers<void>();
    let count = 0;
    await using worker = client.worker(
      orders,
      (task) => ({ enqueue: [sent.shardBeside(task).task(`order ${task.data.id}`, { pid: task.pid })] }),
      {
        concurrency: 3,
        onTaskCompleted: () => {
          if (++count === pids.length) done.resolve();
        },
      },
    );
    worker.start();
    await done.promise;
    expect((await orders.stats()).available).toBe(0);
    for (const pid of pids) expect(await engine.pids(sent.shardOf(pid).name)).toContain(pid);
    expect(() => sent.shardBeside({ queue: 'shop#orders' })).toThrow(TypeError);
    expect(() => sent.shardBeside({ queue: 'other~1#orders' })).toThrow(TypeError);
  });
});

describe('another number of shards', () => {
  test('finds the tasks of the shards beyond it, at once or while it works', async () => {
    const { client, orders: many, timing } = await withOrders(8);
    const few = client.shardedQueue<Order>('shop#orders', { shards: 2 });
    expect(await few.lease({ max: 100 })).toHaveLength(pids.length);
    expect(await few.stats()).toMatchObject({ available: 0, leased: pids.length });

    await many.delete();
    expect((await few.stats()).shards).toHaveLength(2);
    const worker = Promise.withResolvers<number>();
    await using running = client.worker(few, ({ data }) => worker.resolve(data.id), { wait: '10m' });
    running.start();
    await timing.advance(6_000);
    await many.shard(7).enqueue({ id: 77 });
    await timing.advance(20_000);
    expect(await Promise.race([worker.promise, 'nothing'])).toBe(77);
  });

  test('is looked for in the background of a lease that is aborted', async () => {
    const { client, orders, transport } = await withOrders();
    transport.answers.getQueueStats = () => new Promise(() => {});
    const giveUp = new AbortController();
    const leasing = orders.lease({ signal: giveUp.signal });
    const worker = client.worker(orders, () => {});
    worker.start();
    giveUp.abort();
    await expect(leasing).rejects.toMatchObject({ reason: 'CANCELLED' });
    await worker.stop();
  });

  test('is found at the nodes that answer, by the name of the queue if a filter has room for it', async () => {
    const { client, engine, transport, timing } = await withOrders(8);
    const filters: (string | undefined)[] = [];
    transport.answers.getQueueStats = (request, send) => {
      filters.push(request.filter?.nameRegex);
      return request.queues.length > 0 ? Promise.reject(makeError('a node is down', { reason: 'NOT_HOLDER' })) : send();
    };
    const few = client.shardedQueue<Order>('shop#orders', { shards: 2 });
    const leasing = few.lease({ max: 100 });
    await timing.advance(4_000);
    expect(await leasing).toHaveLength(pids.length);
    const long = client.shardedQueue<Order>(`shop.de#${'x'.repeat(300)}`, { shards: 2 });
    const none = long.lease();
    await timing.advance(4_000);
    expect(await none).toEqual([]);
    expect(new Set(filters.filter((filter) => filter !== undefined))).toEqual(
      new Set(['^shop~[0-9]+#orders$', '~[0-9]+#']),
    );
    expect(engine.leases).toHaveLength(2);
  });

  test('works on with the shards that it knows while a node does not answer', async () => {
    const { orders, transport, timing } = await withOrders();
    transport.answers.getQueueStats = () => Promise.reject(overloaded());
    const leasing = orders.lease({ max: 100 });
    for (let request = 0; request < 2; request++) await timing.advance(2_000);
    expect(await leasing).toHaveLength(pids.length);
  });
});

describe('a sharded queue as one queue', () => {
  test('has statistics that are sums', async () => {
    const { orders, timing } = await withOrders();
    const [first] = await orders.lease({ max: 2 });
    await timing.advance(10);
    await first?.complete();
    const stats = await orders.stats();
    expect(stats).toMatchObject({ queue: 'shop#orders', available: 22, leased: 1, delayed: 0, completed: 1 });
    expect(stats.shards.map(({ queue }) => queue)).toEqual([0, 1, 2, 3].map((shard) => `shop~${shard}#orders`));
  });

  test('shows its tasks in order, in pages', async () => {
    const { orders } = await withOrders();
    const found: string[] = [];
    for (let after: Uint8Array | undefined; ; ) {
      const page = await orders.peek({ limit: 7, after, data: false });
      if (page.length === 0) break;
      found.push(...page.map(({ pid }) => String(pid)));
      after = page.at(-1)?.pid;
    }
    expect(found).toEqual(pids);
    expect((await orders.peek()).map(({ data }) => data.id)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    await orders.enqueue({ id: 1 }, { delay: '2h' });
    await orders.enqueue({ id: 2 }, { delay: '1h' });
    expect((await orders.peek({ kind: 'delayed' })).map(({ data }) => data.id)).toEqual([2, 1]);
  });

  test('finds and reschedules tasks by PID, also assigned ones', async () => {
    const { orders } = await withOrders();
    const { pid } = await orders.enqueue({ id: 100 });
    const [first, assigned, none] = await orders.get(['order-03', pid, 'none']);
    expect([first?.data.id, assigned?.data.id, none?.state]).toEqual([3, 100, 'not-found']);
    expect(await orders.reschedule('order-03', '1h')).toBeInstanceOf(Date);
    expect(await orders.reschedule(pid, '1h')).toBeInstanceOf(Date);
    await expect(orders.reschedule('none', '1h')).rejects.toBeInstanceOf(TaskNotFoundError);
    expect((await orders.stats()).delayed).toBe(2);
  });

  test('finds, reschedules and cancels tasks by their keys, in the shard of the key alone', async () => {
    const { client, orders, transport } = setUp();
    const key = 'order-17';
    await orders.enqueue({ id: 17 }, { pid: '5-17', key });
    expect((await orders.get([{ key }]))[0]).toMatchObject({ key, state: 'available', data: { id: 17 } });
    await orders.reschedule({ key }, '1h');
    expect((await orders.get([{ key }], { data: false }))[0]?.state).toBe('delayed');
    expect(new Set(transport.arrived.getTasks.map(({ queue }) => queue))).toEqual(new Set([orders.shardOf(key).name]));
    // Keys and PIDs may be mixed, and the task may be in a shard of another number of shards.
    const fewer = client.shardedQueue<Order>('shop#orders', { shards: 1 });
    const found = await fewer.get([{ key: 'none' }, '5-17', { key }]);
    expect(found.map((task) => [task.state, task.key])).toEqual([
      ['not-found', 'none'],
      ['delayed', key],
      ['delayed', key],
    ]);
    await fewer.cancel({ key });
    await expect(orders.cancel({ key })).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND', items: [{ key }] });
  });

  test('is waited for at all shards, because an assigned PID says nothing of the shard', async () => {
    const { orders, engine, transport } = setUp();
    const { pid } = await orders.enqueue({ id: 1 });
    const waiting = orders.waitFor<number>(pid);
    const failing = orders.waitFor('missing').catch((error: unknown) => error);
    await only(await orders.lease()).complete({ result: 42 });
    expect(await waiting).toBe(42);
    expect(await failing).toBeInstanceOf(TaskNotFoundError);
    expect(await orders.waitForEnd(pid)).toMatchObject({ outcome: 'completed', result: 42 });
    expect(await engine.figures()).toMatchObject({ taskWaits: 0 });
    const refused = { when: 'before', error: makeError('no', { reason: 'PERMISSION_DENIED' }) } as const;
    transport.faults.waitForTasks.push(refused);
    await expect(orders.waitFor('missing')).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
  });

  test('has settings, which are put for each shard', async () => {
    const { client, orders } = setUp();
    await orders.putSettings({ leaseDuration: '2m', deadLetterQueue: 'shop#failed' });
    for (let shard = 0; shard < 4; shard++) {
      expect(await client.queueSettings.of(`shop~${shard}#orders`)).toMatchObject({
        leaseDuration: 120_000,
        deadLetterQueue: `shop~${shard}#failed`,
      });
    }
    await expect(orders.putSettings({ deadLetterQueue: 'other#failed' })).rejects.toBeInstanceOf(TypeError);
    expect([await orders.deleteSettings(), await orders.deleteSettings()]).toEqual([true, false]);
  });

  test('is deleted, and its leases are reset', async () => {
    const { orders } = await withOrders();
    await orders.lease({ max: 5 });
    expect(await orders.resetLeases()).toBe(5);
    expect(await orders.delete()).toBe(pids.length);
  });

  test('has dead letters', async () => {
    const { client, orders } = setUp();
    for (const pid of pids) await orders.enqueue({ id: 1 }, { pid, retry: { maxAttempts: 1 } });
    for (const task of await orders.lease({ max: 100 })) await task.release({ error: new Error('broken') });
    const dead = client.deadLetters(client.shardedQueue('shop#orders.dead', { shards: 4 }));
    const listed: string[] = [];
    for await (const { pid } of dead.list({ limit: 10 })) listed.push(String(pid));
    expect(listed).toHaveLength(10);
    expect(await dead.drop({ where: ({ pid }) => String(pid) === 'order-03' })).toEqual({ settled: 1, skipped: 0 });
    expect(await dead.retry()).toEqual({ settled: pids.length - 1, skipped: 0 });
    expect((await orders.stats()).available).toBe(pids.length - 1);
  });

  test.each([
    ['no shards', 'shop#q', 0],
    ['too many shards', 'shop#q', 257],
    ['no name', '', 4],
    ['the name of a shard', 'shop~1#q', 4],
  ])('is refused with %s', (_what, name, shards) => {
    const { client } = clientSetUp();
    expect(() => client.shardedQueue(name, { shards })).toThrow(TypeError);
  });
});
