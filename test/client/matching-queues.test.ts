import { type LeasedTask, type MatchingOptions, textCodec } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { only } from '@taskmaster/client/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

function setUp(options: MatchingOptions = {}) {
  const made = clientSetUp();
  const { client } = made;
  const jobs = client.matchingQueues<number>({ regex: '#jobs$' }, options);
  const fill = async (tenant: string, count: number): Promise<void> => {
    await client.queue<number>(`${tenant}#jobs`).enqueueMany(Array.from({ length: count }, (_, at) => ({ data: at })));
  };
  return { ...made, jobs, fill };
}

/** How many tasks of each tenant are among these. */
function tenantsOf(queues: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const queue of queues) {
    const tenant = queue.split('#')[0] ?? '';
    counts[tenant] = (counts[tenant] ?? 0) + 1;
  }
  return counts;
}

describe('a worker of matching queues', () => {
  test('takes tasks of all of them in fair turns, so that one with many tasks keeps no other waiting', async () => {
    const { client, jobs, fill, timing } = setUp();
    await fill('busy', 200);
    await fill('ann', 10);
    await fill('bob', 10);
    await client.queue('busy#other').enqueue(1);
    const done: string[] = [];
    await using worker = client.worker(jobs, ({ queue }) => void done.push(queue), { concurrency: 4 });
    worker.start();
    await timing.advance(1_000);
    expect(done).toHaveLength(220);
    expect(tenantsOf(done.slice(0, 33))).toEqual({ busy: 13, ann: 10, bob: 10 });
    expect(jobs.names).toHaveLength(3);
  });

  test('gives them as many as their weights say', async () => {
    const { client, jobs, fill, timing } = setUp({ weight: (queue) => (queue === 'gold#jobs' ? 3 : 1) });
    await fill('gold', 300);
    await fill('tin', 300);
    const done: string[] = [];
    await using worker = client.worker(jobs, ({ queue }) => void done.push(queue), { concurrency: 8, prefetch: 0 });
    worker.start();
    await timing.advance(1_000);
    const { gold = 0 } = tenantsOf(done.slice(0, 200));
    expect(Math.abs(gold - 150)).toBeLessThanOrEqual(8);
  });

  test('shares among groups with all their queues', async () => {
    const { client, timing } = setUp();
    for (const name of ['a#1', 'a#2', 'a#3', 'b#1']) {
      await client.queue(name).enqueueMany(Array.from({ length: 60 }, () => ({ data: 1 })));
    }
    const all = client.matchingQueues({ regex: '^[ab]#' }, { by: 'group' });
    const done: string[] = [];
    await using worker = client.worker(all, ({ queue }) => void done.push(queue), { prefetch: 0 });
    worker.start();
    await timing.advance(1_000);
    const { a = 0 } = tenantsOf(done.slice(0, 60));
    expect(Math.abs(a - 30)).toBeLessThanOrEqual(1);
  });

  test('gets tasks of a new queue at once, also if there was none at first, and lists no queues', async () => {
    const { client, jobs, fill, transport, timing, engine } = setUp();
    const done: string[] = [];
    await using worker = client.worker(jobs, ({ queue }) => void done.push(queue));
    worker.start();
    await timing.advance(10_000);
    for (const tenant of ['ann', 'bob', 'ann']) {
      await fill(tenant, 1);
      await timing.advance(10);
    }
    expect(done).toEqual(['ann#jobs', 'bob#jobs', 'ann#jobs']);
    await client.queue('bob#jobs').enqueue(1, { delay: '500ms' });
    // The engine looks every 100 ms for what is due.
    await timing.advance(600);
    expect(done).toHaveLength(4);
    const before = engine.leases.length;
    await timing.advance(120_000);
    expect(transport.arrived.listQueues).toEqual([]);
    // One request in each wait.
    expect(engine.leases.length - before).toBeLessThanOrEqual(6);
  });

  test('gives a queue that comes while others have tasks its turns', async () => {
    const { client, jobs, fill, timing } = setUp();
    await fill('busy', 300);
    const done: string[] = [];
    await using worker = client.worker(
      jobs,
      async ({ queue }) => {
        done.push(queue);
        if (done.length === 100) await fill('late', 10);
      },
      { concurrency: 2, prefetch: 0 },
    );
    worker.start();
    await timing.advance(5_000);
    const { late } = tenantsOf(done.slice(100, 130));
    expect(late).toBe(10);
  });

  test('ends if its expression is wrong', async () => {
    const { client, jobs, transport } = setUp();
    transport.faults.leaseTasks.push({ when: 'before', error: makeError('no', { reason: 'INVALID_REGEX' }) });
    await using worker = client.worker(jobs, () => {});
    await expect(worker.run()).rejects.toMatchObject({ reason: 'INVALID_REGEX' });
  });

  test('stops while there is no queue', async () => {
    const { client, jobs, timing } = setUp();
    const worker = client.worker(jobs, () => {});
    worker.start();
    await timing.advance(1_000);
    await worker.stop();
  });

  test('takes them after queues that are named first', async () => {
    const { client, jobs, fill, timing } = setUp();
    await fill('ann', 20);
    await fill('bob', 20);
    await client.queue('urgent').enqueueMany([{ data: 1 }, { data: 2 }]);
    const done: string[] = [];
    await using worker = client.worker(['urgent', jobs], ({ queue }) => void done.push(queue), { prefetch: 0 });
    worker.start();
    await timing.advance(1_000);
    expect(done.slice(0, 2)).toEqual(['urgent', 'urgent']);
    expect(tenantsOf(done.slice(2, 22))).toEqual({ ann: 10, bob: 10 });
    expect(done).toHaveLength(42);
  });
});

describe('a lease of matching queues', () => {
  test('has the part of one turn, and waits for queues that do not exist yet', async () => {
    const { jobs, fill, timing } = setUp();
    await fill('ann', 10);
    await fill('bob', 10);
    const tasks = await jobs.lease({ max: 10 });
    expectTypeOf(tasks).toEqualTypeOf<LeasedTask<number>[]>();
    expect(tenantsOf(tasks.map(({ queue }) => queue))).toEqual({ ann: 5, bob: 5 });
    expect(tenantsOf((await jobs.lease({ max: 6 })).map(({ queue }) => queue))).toEqual({ ann: 3 });
    expect(tenantsOf((await jobs.lease({ max: 6 })).map(({ queue }) => queue))).toEqual({ bob: 3 });
    // The part of a queue is more than it has, and the next one gets the rest.
    expect(await jobs.lease({ max: 100 })).toHaveLength(4);
    expect(await jobs.lease()).toEqual([]);
    const waiting = jobs.lease({ wait: '30s' });
    await timing.advance(7_000);
    await fill('eve', 1);
    expect(only(await waiting).queue).toBe('eve#jobs');
    const inVain = jobs.lease({ wait: '8s' });
    await timing.advance(8_000);
    expect(await inVain).toEqual([]);
    await expect(jobs.lease({ max: 0 })).rejects.toBeInstanceOf(TypeError);
  });

  test('of several patterns reads each task with the codec of its own', async () => {
    const { client } = setUp();
    const texts = client.matchingQueues<string>({ regex: '#texts$' }, { codec: textCodec });
    const numbers = client.matchingQueues<number>({ group: 'n' });
    const first = client.queue<number>('first');
    for (const [name, data] of [
      ['n#one', 1],
      ['first', 0],
    ] as const) {
      await client.queue<number>(name).enqueue(data);
    }
    await client.queue('t#texts', { codec: textCodec }).enqueue('{');
    const lease = () => client.lease({ queues: [texts, first, numbers] });
    const leased = [await lease(), await lease(), await lease()].flat();
    expect(leased.map(({ queue, data }) => [queue, data])).toEqual([
      ['t#texts', '{'],
      ['first', 0],
      ['n#one', 1],
    ]);
  });

  test('ends when its signal is aborted, also while there is no queue', async () => {
    const { jobs, timing } = setUp();
    const abort = new AbortController();
    const failing = expect(jobs.lease({ wait: '30s', signal: abort.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await timing.advance(1_000);
    abort.abort();
    await failing;
  });

  test('reads tasks with the codec of the pattern', async () => {
    const { client } = setUp();
    await client.queue('a#texts', { codec: textCodec }).enqueue('{');
    const texts = client.matchingQueues({ group: 'a' }, { codec: textCodec });
    expect(only(await texts.lease()).data).toBe('{');
  });
});

test.each([
  ['no filter', {}, {}],
  ['an unknown share', { regex: 'q' }, { by: 'tenant' as never }],
])('%s is refused', (_what, filter, options) => {
  expect(() => clientSetUp().client.matchingQueues(filter, options)).toThrow(TypeError);
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, '2' as never])('a weight of %s is refused', async (weight) => {
  const { jobs, fill } = setUp({ weight: () => weight });
  await fill('ann', 1);
  await expect(jobs.lease()).rejects.toBeInstanceOf(TypeError);
});
