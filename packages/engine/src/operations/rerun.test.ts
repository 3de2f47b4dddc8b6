import { EnqueueMode, EnqueueResult, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness } from '../testing/engine-harness.ts';

const { ENQUEUE_MODE_RERUN: RERUN, ENQUEUE_MODE_RERUN_FIRST: FIRST } = EnqueueMode;

async function enqueue(
  h: EngineHarness,
  data: string,
  more: Partial<EnqueueSpec> = {},
): Promise<EnqueueResult | undefined> {
  const { enqueued } = await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', data, ...more }] });
  return enqueued[0]?.result;
}

const lease = async (h: EngineHarness): Promise<LeasedTask | undefined> => (await h.lease('g#q'))[0];
const dataOf = (task: LeasedTask | undefined): string | undefined => task && Buffer.from(task.data).toString();
const complete = (h: EngineHarness, task: LeasedTask | undefined) =>
  h.update({ dequeue: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
async function stateOf(h: EngineHarness): Promise<TaskState | undefined> {
  const command = { queue: parseQueueName('g#q'), pids: ['p' as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state;
}

describe('a task that is enqueued again while it is leased', () => {
  test.each([
    ['with the latest data', RERUN, 'third'],
    ['with the first data', FIRST, 'second'],
  ])('runs once more after its completion, %s, also after a crash', async (_which, mode, data) => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    const task = await lease(h);
    expect(await enqueue(h, 'second', { mode })).toBe(EnqueueResult.ENQUEUE_RESULT_RERUN);
    expect(await enqueue(h, 'third', { mode })).toBe(EnqueueResult.ENQUEUE_RESULT_RERUN);
    await h.crash();
    await complete(h, task);
    await h.crash();
    expect(await stateOf(h)).toMatchObject({ attempts: 0, token: 0, visibility: { kind: 'available' } });
    const again = await lease(h);
    expect([dataOf(again), again?.attempt]).toEqual([data, 1]);
    await complete(h, again);
    expect(await h.counts('g#q')).toEqual({ available: 0, leased: 0, delayed: 0 });
  });

  test('is not completed by a repeated completion', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    const task = await lease(h);
    await enqueue(h, 'second', { mode: RERUN });
    await complete(h, task);
    await expect(complete(h, task)).rejects.toMatchObject({ reason: 'LEASE_LOST' });
  });

  test('is not completed by a worker whose lease has ended', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    const [task] = await h.lease('g#q', { for: 50 });
    await h.clock.advance(100);
    expect(await enqueue(h, 'second', { mode: RERUN })).toBe(EnqueueResult.ENQUEUE_RESULT_REPLACED);
    await complete(h, task);
    expect(dataOf(await lease(h))).toBe('second');
  });

  test('has fresh attempts if the attempt fails, and does not go to the dead letters', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first', { retry: { maxAttempts: 1 } });
    const task = await lease(h);
    await enqueue(h, 'second', { mode: RERUN });
    const release = { queue: 'g#q', pid: 'p', token: task?.token, error: 'no', deadLetter: true };
    expect((await h.update({ release: [release] })).released).toMatchObject([{ deadLetterQueue: undefined }]);
    const again = await lease(h);
    expect([dataOf(again), again?.attempt]).toEqual(['second', 1]);
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: again?.token }] });
    expect(await h.counts('g#q.dead')).toMatchObject({ available: 1 });
  });

  test('whose lease expires in its last attempt runs again', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first', { retry: { maxAttempts: 1 } });
    await h.lease('g#q', { for: 50 });
    await enqueue(h, 'second', { mode: RERUN });
    await h.clock.advance(100);
    expect(dataOf(await lease(h))).toBe('second');
    expect(await h.counts('g#q.dead')).toMatchObject({ available: 0 });
  });

  test('runs only once more when it was leased again with the later data', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    const task = await lease(h);
    await enqueue(h, 'second', { mode: RERUN });
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
    const again = await lease(h);
    expect(dataOf(again)).toBe('second');
    await complete(h, again);
    expect(await lease(h)).toBeUndefined();
  });

  test('is removed by a dequeue without a token', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    await lease(h);
    await enqueue(h, 'second', { mode: RERUN });
    await h.update({ dequeue: [{ queue: 'g#q', pid: 'p' }] });
    expect(await stateOf(h)).toBeUndefined();
  });
});

describe.each(['without a look since', 'with a look since'])('a task whose lease has ended, %s', (when) => {
  const look = async (h: EngineHarness): Promise<void> => {
    if (when === 'with a look since') for (const queue of ['g#q', 'g#dead']) await h.counts(queue);
  };

  test.each([RERUN, FIRST])('keeps its failed attempt when it is enqueued again, by mode %i', async (mode) => {
    await using h = await engineHarness({ jitter: 0.5 });
    await enqueue(h, 'first', { retry: { backoffInitialMs: 1000 } });
    await h.lease('g#q', { for: 50 });
    await h.clock.advance(100);
    await look(h);
    await enqueue(h, 'second', { mode });
    expect(await stateOf(h)).toMatchObject({ attempts: 1, history: { failures: [{ attempt: 1 }] } });
  });

  test('keeps its failed attempt when it goes back from the dead letters', async () => {
    await using h = await engineHarness();
    await enqueue(h, 'first', { retry: { deadLetterQueue: 'dead' } });
    const task = await lease(h);
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, error: 'no', deadLetter: true }] });
    await h.lease('g#dead', { for: 50, worker: 'late' });
    await h.clock.advance(100);
    await look(h);
    await h.update({ dequeue: [{ queue: 'g#dead', pid: 'p', requeue: true }] });
    const { failures } = (await stateOf(h))?.history ?? {};
    expect(failures?.map(({ worker }) => worker)).toEqual(['worker', 'late']);
  });
});

describe('a dead letter that is enqueued again while it is leased', () => {
  const DEAD = 'g#q.dead';

  async function runAgain(h: EngineHarness): Promise<void> {
    await enqueue(h, 'first', { key: 'k', retry: { maxAttempts: 7, backoffInitialMs: 100 }, timeLimit: 5000 });
    const task = await lease(h);
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, error: 'no', deadLetter: true }] });
    const [dead] = await h.lease(DEAD);
    await h.update({ enqueue: [{ queue: DEAD, pid: 'other', key: 'k' }] });
    await enqueue(h, 'second', { queue: DEAD, mode: RERUN });
    await h.update({ dequeue: [{ queue: DEAD, pid: 'p', token: dead?.token }] });
  }

  test('has no key, so that the key stays unique', async () => {
    await using h = await engineHarness();
    await runAgain(h);
    const get = { queue: parseQueueName(DEAD), pids: [], keys: ['k'], includeData: false };
    expect(await h.engine.getTasks(get)).toMatchObject([{ pid: 'other' }]);
    await h.update({ dequeue: [{ queue: DEAD, pid: 'p' }] });
    expect(await h.engine.getTasks(get)).toMatchObject([{ pid: 'other' }]);
  });

  test('has no limit of attempts, and goes back as the task that it was', async () => {
    await using h = await engineHarness();
    await runAgain(h);
    const dead = await h.lease(DEAD, { max: 2 });
    expect(dead).toMatchObject([{ pid: 'other' }, { pid: 'p', maxAttempts: 0, timeLimitMs: 0 }]);
    await h.update({ dequeue: [{ queue: DEAD, pid: 'p', requeue: true }] });
    expect(await lease(h)).toMatchObject({
      history: { key: 'k' },
      maxAttempts: 7,
      timeLimitMs: 5000,
      data: Buffer.from('second'),
    });
  });
});

describe('a task that is enqueued again while it waits', () => {
  test.each([
    ['gets the latest data', RERUN, EnqueueResult.ENQUEUE_RESULT_REPLACED, 'second'],
    ['keeps the first data', FIRST, EnqueueResult.ENQUEUE_RESULT_COLLAPSED, 'first'],
  ])('%s and runs once', async (_which, mode, result, data) => {
    await using h = await engineHarness();
    await enqueue(h, 'first');
    expect(await enqueue(h, 'second', { mode })).toBe(result);
    const task = await lease(h);
    expect(dataOf(task)).toBe(data);
    await complete(h, task);
    expect(await stateOf(h)).toBeUndefined();
  });
});
