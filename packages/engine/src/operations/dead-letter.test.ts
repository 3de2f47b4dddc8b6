import { parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const once = (deadLetterQueue: string) => ({ maxAttempts: 1, deadLetterQueue });

/** Leases a task in its last attempt, and the task with the same PID in its dead-letter queue. */
async function leasedBoth(h: EngineHarness): Promise<readonly LeasedTask[]> {
  await h.update({
    enqueue: [
      { queue: 'g#q', pid: 'p', data: 'from q', retry: once('d') },
      { queue: 'g#d', pid: 'p', data: 'in d' },
    ],
  });
  return h.lease(['g#q', 'g#d'], { max: 2 });
}

/** The data of all tasks of a queue, by their PIDs. */
async function tasksIn(h: EngineHarness, queue: string): Promise<readonly (readonly [string, string])[]> {
  const tasks = await h.lease(queue, { max: 10 });
  return tasks.map(({ pid, data }) => [pid, Buffer.from(data).toString()] as const);
}

const BESIDE = expect.stringMatching(/^p~[\w-]{11}$/);

test('a dead-lettered task stands beside another task with its PID, also if the same update changes that one', async () => {
  await using h = await engineHarness();
  const [q, d] = await leasedBoth(h);
  await h.update({
    release: [
      { queue: 'g#q', pid: 'p', token: q?.token },
      { queue: 'g#d', pid: 'p', token: d?.token },
    ],
  });
  await h.clock.advance(1000);
  await h.crash();
  expect(await h.counts('g#q')).toEqual({ available: 0, leased: 0, delayed: 0 });
  expect(await h.counts('g#d')).toEqual({ available: 2, leased: 0, delayed: 0 });
  expect(await tasksIn(h, 'g#d')).toEqual([
    ['p', 'in d'],
    [BESIDE, 'from q'],
  ]);
});

test('the lease of a task does not complete a dead letter that came to its PID later', async () => {
  await using h = await engineHarness();
  const [q, d] = await leasedBoth(h);
  expect(d?.token).toBe(q?.token);
  await h.update({ dequeue: [{ queue: 'g#d', pid: 'p', token: d?.token }] });
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: q?.token }] });
  const late = h.update({ dequeue: [{ queue: 'g#d', pid: 'p', token: d?.token }] });
  await expect(late).rejects.toMatchObject({ reason: 'LEASE_LOST' });
  expect(await tasksIn(h, 'g#d')).toEqual([['p', 'from q']]);
});

describe('dead letters of two queues with one PID and one dead-letter queue', () => {
  const die = async (h: EngineHarness, queue: string, pid = 'p', data = `from ${queue}`): Promise<void> => {
    await h.update({ enqueue: [{ queue, pid, data, retry: once('d') }] });
    await h.lease(queue, { for: 1000 });
    await h.clock.advance(1000);
    await h.counts('g#d');
  };

  test('are both there, also after a crash, and each goes back with its own PID', async () => {
    await using h = await engineHarness();
    for (const queue of ['g#q', 'g#r', 'g#s']) await die(h, queue);
    await h.crash();
    const found = await tasksIn(h, 'g#d');
    expect(found).toEqual([
      ['p', 'from g#q'],
      [BESIDE, expect.stringMatching(/from g#[rs]/)],
      [BESIDE, expect.stringMatching(/from g#[rs]/)],
    ]);
    await h.update({ dequeue: found.map(([pid]) => ({ queue: 'g#d', pid, requeue: true })) });
    await h.crash();
    for (const queue of ['g#q', 'g#r', 'g#s']) expect(await tasksIn(h, queue)).toEqual([['p', `from ${queue}`]]);
    expect(await h.counts('g#d')).toMatchObject({ available: 0, leased: 0 });
  });

  test('are replaced by later ones of the same task, and by no others', async () => {
    await using h = await engineHarness();
    for (const queue of ['g#q', 'g#r']) await die(h, queue);
    for (const queue of ['g#q', 'g#r']) await die(h, queue, 'p', `again ${queue}`);
    expect(await tasksIn(h, 'g#d')).toEqual([
      ['p', 'again g#q'],
      [BESIDE, 'again g#r'],
    ]);
  });

  test.each([4096, 4085, 4084])(
    'are both there with PIDs of %i bytes, and a task that has the other PID stays',
    async (length) => {
      await using h = await engineHarness();
      const pid = 'p'.repeat(length);
      await die(h, 'g#q', pid);
      await die(h, 'g#r', pid);
      const [, [taken = ''] = []] = await tasksIn(h, 'g#d');
      expect(taken.length).toBe(Math.min(4096, length + 12));
      await h.update({ dequeue: [{ queue: 'g#d', pid: taken }] });
      await h.update({ enqueue: [{ queue: 'g#d', pid: taken, data: 'of a user' }] });
      await die(h, 'g#r', pid);
      expect((await h.counts('g#d')).available + (await h.counts('g#d')).leased).toBe(3);
      const datas = new Set((await tasksIn(h, 'g#d')).map(([, data]) => data));
      expect(datas).toEqual(new Set(['of a user', 'from g#r']));
    },
  );
});

test('a dead-lettered task frees its PID for another dead letter of the same update', async () => {
  await using h = await engineHarness();
  await h.update({
    enqueue: [
      { queue: 'g#q', pid: 'p', data: 'from q', retry: once('d') },
      { queue: 'g#d', pid: 'p', data: 'from d', retry: once('e') },
    ],
  });
  const [q, d] = await h.lease(['g#q', 'g#d'], { max: 2 });
  await h.update({
    release: [
      { queue: 'g#q', pid: 'p', token: q?.token },
      { queue: 'g#d', pid: 'p', token: d?.token },
    ],
  });
  const dataIn = async (queue: string) => (await h.lease(queue)).map(({ data }) => Buffer.from(data).toString());
  expect(await dataIn('g#d')).toEqual(['from q']);
  expect(await dataIn('g#e')).toEqual(['from d']);
});

test('large tasks that are dead-lettered together are moved a few at a time', async () => {
  await using h = await engineHarness({ config: { cacheBytes: 1024 } });
  const data = 'x'.repeat(1024 * 1024);
  const pids = Array.from({ length: 12 }, (_, i) => `p${String(i).padStart(2, '0')}`);
  for (const pid of pids) await h.update({ enqueue: [{ queue: 'g#q', pid, data, retry: once('d') }] });
  for (const _pid of pids) await h.lease('g#q', { for: 1000 });
  const before = h.engine.figures().atoms;
  await h.clock.advance(1000);
  expect(await h.counts('g#d')).toMatchObject({ available: 12 });
  expect(h.engine.figures().atoms - before).toBe(3);
  const dead = await h.engine.peekTasks({
    queue: { group: 'g', name: 'd' },
    kind: 'head',
    limit: 20,
    includeData: false,
  });
  expect(pidsOf(dead)).toEqual(pids);
});

describe('a task whose last lease has ended, before any search for expired leases', () => {
  const isRefused = { items: [expect.objectContaining({ reason: 'TASK_NOT_FOUND' })] };

  async function died(h: EngineHarness, deadLetterQueue = ''): Promise<{ queue: string; pid: string; token?: number }> {
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'from q', retry: once(deadLetterQueue) }] });
    const [task] = await h.lease('g#q', { for: 1000 });
    return { queue: 'g#q', pid: 'p', token: task?.token ?? 0 };
  }

  test('is in the dead-letter queue: a late release, completion or renewal is refused', async () => {
    await using h = await engineHarness();
    const item = await died(h);
    await h.clock.advance(1000);
    await expect(h.update({ release: [{ ...item, refund: true }] })).rejects.toMatchObject(isRefused);
    await expect(h.update({ dequeue: [item] })).rejects.toMatchObject(isRefused);
    await expect(h.update({ renew: [{ ...item, for: 1000 }] })).rejects.toMatchObject(isRefused);
    expect(pidsOf(await h.lease('g#q.dead'))).toEqual(['p']);
  });

  test('is in the dead-letter queue for an update that comes while an earlier search goes on', async () => {
    await using h = await engineHarness({ readMs: 10 });
    await died(h);
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'o', delay: 995 }] });
    await h.clock.advance(995);
    const search = h.counts('g#q');
    await h.clock.advance(5);
    const { enqueued } = await h.clock.run(h.update({ enqueue: [{ queue: 'g#q.dead' }] }));
    await h.clock.run(search);
    // Assigned behind every PID that the queue has held.
    expect(enqueued[0]?.pid).toBe('p0000000000000001');
  });

  test('is leased within a second to a request that waits for the dead-letter queue, however rare checkpoints are', async () => {
    await using h = await engineHarness({ config: { checkpointIntervalMs: 60_000 } });
    await died(h);
    const served: string[] = [];
    void h.lease('g#q.dead', { wait: 60_000 }).then((tasks) => served.push(...pidsOf(tasks)));
    await h.clock.advance(2000);
    expect(served).toEqual(['p']);
  });

  test('is leased within a second in each of many queues', async () => {
    await using h = await engineHarness();
    const queues = Array.from({ length: 500 }, (_, number) => `g#q${number}`);
    await h.update({ enqueue: queues.map((queue) => ({ queue, pid: 'p', retry: once('') })) });
    await h.lease(queues, { max: queues.length, for: 1000 });
    let served = 0;
    for (const queue of queues) void h.lease(`${queue}.dead`, { wait: 60_000 }).then(() => served++);
    await h.clock.advance(2000);
    expect(served).toBe(queues.length);
  });

  test.each(['', 'named'])('is in the dead-letter queue after a crash, too: %j', async (deadLetterQueue) => {
    await using h = await engineHarness();
    await died(h, deadLetterQueue);
    await h.crash();
    await h.clock.advance(1000);
    expect(pidsOf(await h.clock.run(h.lease(`g#${deadLetterQueue || 'q.dead'}`)))).toEqual(['p']);
  });
});

describe('a dead letter that is put back', () => {
  const retry = { maxAttempts: 1, deadLetterQueue: 'd' };

  /** `p` of the queue `q` has failed and is in `d`. */
  async function failed(h: EngineHarness): Promise<void> {
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'from q', retry }] });
    const [task] = await h.lease('g#q');
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, error: 'no route' }] });
  }

  const back = { dequeue: [{ queue: 'g#d', pid: 'p', requeue: true }] };
  const stateOf = async (h: EngineHarness, queue: string) => {
    const [seen] = await h.engine.getTasks({ queue: parseQueueName(queue), pids: ['p' as Pid], includeData: true });
    return seen;
  };

  test('waits where it was with its data, policy and failures, also after a crash', async () => {
    await using h = await engineHarness();
    await failed(h);
    await h.crash();
    expect((await stateOf(h, 'g#d'))?.state?.history).toMatchObject({ origin: { queue: 'q' } });
    await h.update(back);
    await h.crash();
    const seen = await stateOf(h, 'g#q');
    expect(seen?.state).toMatchObject({ attempts: 0, retry, history: { origin: undefined } });
    expect(seen?.state?.history?.failures).toMatchObject([{ attempt: 1, error: { message: 'no route' } }]);
    expect(Buffer.from(seen?.data ?? []).toString()).toBe('from q');
    expect(await h.counts('g#d')).toEqual({ available: 0, leased: 0, delayed: 0 });
  });

  test('does not replace a task that is there again', async () => {
    await using h = await engineHarness();
    await failed(h);
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'newer' }] });
    await expect(h.update(back)).rejects.toMatchObject({
      items: [{ index: 0, reason: 'TASK_EXISTS', queue: { name: 'd' } }],
    });
    expect(await h.counts('g#d')).toMatchObject({ available: 1 });
    expect(Buffer.from((await stateOf(h, 'g#q'))?.data ?? []).toString()).toBe('newer');
  });

  test('goes back although the task with its PID dies in the same update, and the two change places', async () => {
    await using h = await engineHarness();
    await failed(h);
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data: 'newer', retry }] });
    const [newer] = await h.lease('g#q');
    await h.update({ ...back, release: [{ queue: 'g#q', pid: 'p', token: newer?.token, error: 'again' }] });
    expect(Buffer.from((await stateOf(h, 'g#q'))?.data ?? []).toString()).toBe('from q');
    expect(Buffer.from((await stateOf(h, 'g#d'))?.data ?? []).toString()).toBe('newer');
  });

  test('must have come from another queue', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#d', pid: 'p' }] });
    await expect(h.update(back)).rejects.toMatchObject({ reason: 'NOT_DEAD_LETTERED' });
  });

  test('is a task whose worker gave it up, whatever its policy', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
    const [task] = await h.lease('g#q');
    const release = { queue: 'g#q', pid: 'p', token: task?.token, error: 'hopeless', deadLetter: true };
    const { released } = await h.update({ release: [release] });
    expect(released).toEqual([{ until: undefined, deadLetterQueue: 'g#q.dead' }]);
    await h.update({ dequeue: [{ queue: 'g#q.dead', pid: 'p', requeue: true }] });
    expect(pidsOf(await h.lease('g#q'))).toEqual(['p']);
  });
});

test('a lease that expires leaves a failure with its worker', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
  await h.lease('g#q', { for: 100, worker: 'w' });
  const leasedAt = h.clock.now();
  await h.clock.advance(150);
  const [seen] = await h.engine.getTasks({ queue: parseQueueName('g#q'), pids: ['p' as Pid], includeData: false });
  const failure = { at: leasedAt + 100, attempt: 1, worker: 'w', error: undefined };
  expect(seen?.state?.history?.failures).toEqual([failure]);
});
