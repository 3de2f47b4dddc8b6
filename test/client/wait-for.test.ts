import {
  bytesCodec,
  CancelledError,
  type CompleteOptions,
  DeadlineExceededError,
  InvalidDataError,
  type Queue,
  TaskNotCompletedError,
  TaskNotFoundError,
  textCodec,
} from '@taskmaster/client';
import { connectionLost, only } from '@taskmaster/client/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

describe('a wait for a task', () => {
  let made: ClientSetUp;
  let queue: Queue<string>;
  const complete = async (options: CompleteOptions = {}) => only(await queue.lease()).complete(options);

  beforeEach(async () => {
    made = clientSetUp();
    queue = made.client.queue<string>('g#q');
    await queue.enqueue('data', { pid: 'p' });
  });

  test.each([
    ['JSON', { result: { total: 7 } }, { total: 7 }],
    ['null', { result: null }, null],
    ['undefined', { result: undefined }, undefined],
    ['no result', {}, undefined],
  ])('resolves with the result: %s', async (_what, options, expected) => {
    const waiting = queue.waitFor('p');
    await made.timing.settled();
    await complete(options);
    expect(await waiting).toEqual(expected);
  });

  test('resolves at once if the task is completed already', async () => {
    await complete({ result: 'done', resultRetention: '1m' });
    expect(await queue.waitForEnd('p')).toEqual({
      outcome: 'completed',
      result: 'done',
      attempts: 1,
      error: undefined,
      endedAt: expect.any(Date),
    });
    expect(made.engine.updates.at(-1)?.dequeue).toMatchObject([{ resultRetentionMs: 60_000 }]);
  });

  test('decodes the result with its codec', async () => {
    await complete({ result: 'text', resultCodec: textCodec });
    expect(await queue.waitFor('p', { codec: textCodec })).toBe('text');
    expect(Buffer.from((await queue.waitFor('p', { codec: bytesCodec })) ?? []).toString()).toBe('text');
    await expect(queue.waitFor('p')).rejects.toBeInstanceOf(InvalidDataError);
  });

  test('asks again and again, and after a lost connection, until the task ends', async () => {
    made.transport.faults.waitForTasks.push({ when: 'before', error: connectionLost() });
    const waiting = queue.waitFor('p');
    await made.timing.advance(200_000);
    expect(await made.engine.figures()).toMatchObject({ taskWaits: 1 });
    await complete({ result: 1 });
    expect(await waiting).toBe(1);
  });

  test('rejects with the error of a task that goes to its dead-letter queue', async () => {
    const waiting = queue.waitFor('p').catch((error: unknown) => error);
    await made.timing.settled();
    await only(await queue.lease()).deadLetter('no such address');
    const error = await waiting;
    expect(error).toBeInstanceOf(TaskNotCompletedError);
    expect(error).toMatchObject({
      reason: 'TASK_NOT_COMPLETED',
      outcome: 'dead-lettered',
      retryable: false,
      message: 'task p of g#q went to its dead-letter queue after 1 attempt: no such address',
    });
  });

  test('rejects if the task is removed, or is not known', async () => {
    const waiting = queue.waitFor('p').catch((error: unknown) => error);
    await made.timing.settled();
    await made.client.update().dequeue(queue, 'p').commit();
    expect(await waiting).toMatchObject({ outcome: 'removed', message: 'task p of g#q was removed' });
    await expect(queue.waitFor('p')).rejects.toBeInstanceOf(TaskNotFoundError);
    expect(await queue.waitForEnd('p')).toMatchObject({ outcome: 'unknown', endedAt: undefined });
  });

  test('rejects after its timeout, or when its signal is aborted', async () => {
    const late = queue.waitFor('p', { timeout: '90s' }).catch((error: unknown) => error);
    await made.timing.advance(89_000);
    expect(await made.engine.figures()).toMatchObject({ taskWaits: 1 });
    await made.timing.advance(2_000);
    expect(await late).toBeInstanceOf(DeadlineExceededError);
    const abort = new AbortController();
    const cancelled = queue.waitFor('p', { signal: abort.signal }).catch((error: unknown) => error);
    await made.timing.settled();
    abort.abort();
    expect(await cancelled).toBeInstanceOf(CancelledError);
    expect(await made.engine.figures()).toMatchObject({ taskWaits: 0 });
  });
});

test('a result that cannot be encoded fails before anything is sent, and the task can still be completed', async () => {
  const { client, engine } = clientSetUp();
  const queue = client.queue<string>('g#q');
  await queue.enqueue('data', { pid: 'p' });
  const task = only(await queue.lease());
  await expect(task.complete({ result: 1n })).rejects.toThrow(/the result cannot be encoded/);
  await task.complete({ result: 1 });
  expect(await engine.pids('g#q')).toEqual([]);
});
