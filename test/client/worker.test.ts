import { InvalidDataError, InvalidRequestError, textCodec } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { connectionLost, overloaded } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { gatedHandler, named, workerSetUp } from './support/worker-set-up.ts';

test('tasks are handled in order and completed', async () => {
  const { client, queue, engine, heard, hooks, timing } = workerSetUp();
  await queue.enqueueMany(named('a', 'b', 'c'));
  await using worker = client.worker(queue, () => {}, hooks);
  worker.start();
  await timing.settled();
  expect(heard).toEqual(['complete a', 'complete b', 'complete c']);
  expect(await engine.pids('g#q')).toEqual([]);
});

test('an enqueue wakes a waiting worker', async () => {
  const { client, queue, engine, heard, hooks, timing } = workerSetUp();
  await using worker = client.worker(queue, () => {}, hooks);
  worker.start();
  await timing.settled();
  expect((await engine.figures()).waiters).toBe(1);
  await queue.enqueue('a');
  await timing.settled();
  expect(heard).toEqual(['complete a']);
});

test('at most `concurrency` tasks are handled at once, and none is leased ahead while they take long', async () => {
  const { client, queue, engine, timing } = workerSetUp();
  const { begun, handler, finish } = gatedHandler();
  await queue.enqueueMany(named('a', 'b', 'c', 'd'));
  const worker = client.worker(queue, handler, { concurrency: 2 });
  worker.start();
  await timing.settled();
  expect(begun).toEqual(['a', 'b']);
  expect(worker.active).toBe(2);
  expect((await queue.stats()).leased).toBe(2);
  finish('a');
  await timing.settled();
  expect(begun).toEqual(['a', 'b', 'c']);
  for (const data of ['b', 'c']) finish(data);
  await timing.settled();
  finish('d');
  await worker.stop();
  expect(await engine.pids('g#q')).toEqual([]);
});

test('quick tasks are leased ahead, within the limit and several at a time', async () => {
  const { client, queue, engine, timing } = workerSetUp();
  await queue.enqueueMany(named('a', 'b', 'c', 'd', 'e', 'f', 'g'));
  await using worker = client.worker(queue, () => {}, { concurrency: 1, prefetch: 3 });
  worker.start();
  await timing.settled();
  expect(engine.leases.map(({ maxTasks }) => maxTasks).slice(0, 3)).toEqual([1, 4, 3]);
});

test('the result of a handler is enqueued with the completion of its task', async () => {
  const { client, queue, engine, timing } = workerSetUp();
  const next = client.queue<string>('g#next');
  await queue.enqueue('a');
  await using worker = client.worker(queue, async (task) => ({ enqueue: [next.task(`${task.data}!`, { pid: 'n' })] }));
  worker.start();
  await timing.settled();
  expect(await engine.pids('g#next')).toEqual(['n']);
  expect(engine.updates.at(-1)).toMatchObject({ enqueue: [{ queue: 'g#next' }], dequeue: [{ queue: 'g#q' }] });
});

test('a handler may settle its task itself', async () => {
  const { client, queue, engine, heard, hooks, timing } = workerSetUp();
  await queue.enqueueMany(named('a', 'b'));
  await using worker = client.worker(
    queue,
    async (task) => {
      if (task.data === 'a') await task.complete();
      else await task.release({ delay: '1h' });
    },
    hooks,
  );
  worker.start();
  await timing.settled();
  expect(heard).toEqual([]);
  expect(await engine.pids('g#q')).toEqual(['b']);
});

describe('a failed attempt', () => {
  const failing = (): never => {
    throw new Error('smtp down');
  };

  test('is left to the node: the delay is that of the retry policy', async () => {
    const { client, queue, engine, transport, timing } = workerSetUp();
    transport.faults.getTasks.push({ when: 'before', error: connectionLost() });
    await queue.enqueue('a', { pid: 'a', retry: { maxAttempts: 1 } });
    await using worker = client.worker(queue, failing);
    worker.start();
    await timing.settled();
    expect(engine.updates.at(-1)?.release[0]?.delayMs).toBeUndefined();
    expect(await engine.pids('g#q.dead')).toEqual(['a']);
    expect(transport.faults.getTasks.length, 'the lease says so, nothing is looked up').toBe(1);
  });

  test('includes an unreadable payload: the handler is not called, and the worker continues', async () => {
    const { client, queue, heard, hooks, timing } = workerSetUp();
    await client.queue('g#q', { codec: textCodec }).enqueue('{', { pid: 'a' });
    await queue.enqueue('good', { pid: 'b' });
    const errors: unknown[] = [];
    const handled: string[] = [];
    await using worker = client.worker(queue, (task) => void handled.push(task.data), {
      ...hooks,
      onAttemptFailed: (error) => errors.push(error),
    });
    worker.start();
    await timing.settled();
    expect(errors).toEqual([expect.any(InvalidDataError)]);
    expect(handled).toEqual(['good']);
    expect(heard).toEqual(['complete good']);
    expect((await queue.get(['a'], { data: false }))[0]?.state).toBe('delayed');
  });

  test('includes a result that cannot be enqueued', async () => {
    const { client, queue, engine, heard, hooks, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    await using worker = client.worker(queue, () => ({ enqueue: [client.queue('other#q').task(1)] }), hooks);
    worker.start();
    await timing.settled();
    expect(heard).toHaveLength(1);
    expect(heard[0]).toMatch(/^error all queues of an update must be of one group.* in a task$/);
    expect(await engine.pids('g#q')).toEqual(['a']);
    expect((await queue.get(['a']))[0]?.state).toBe('delayed');
  });
});

describe('if leasing fails', () => {
  test('temporarily, the worker tries again, less and less often', async () => {
    const { client, queue, transport, timing, heard, hooks } = workerSetUp();
    transport.faults.leaseTasks.push(
      ...Array.from({ length: 25 }, () => ({ when: 'before', error: overloaded() }) as const),
    );
    await using worker = client.worker(queue, () => {}, hooks);
    worker.start();
    await timing.advance(20_000);
    expect(heard).toEqual(['error too much to do; gave up after 4.6 s', 'error too much to do; gave up after 4.6 s']);
    await queue.enqueue('a');
    await timing.advance(1_000);
    expect(heard.at(-1)).toBe('complete a');
  });

  test('because the client is closed, run() rejects with it', async () => {
    const { client, queue, transport } = workerSetUp();
    const closed = makeError('the client is closed', { reason: 'CANCELLED' });
    transport.faults.leaseTasks.push({ when: 'before', error: closed });
    await expect(client.worker(queue, () => {}).run()).rejects.toBe(closed);
  });

  test('because the request is wrong, run() rejects with it', async () => {
    const { client, queue, transport } = workerSetUp();
    transport.faults.leaseTasks.push({ when: 'before', error: makeError('bad name', { reason: 'INVALID_QUEUE' }) });
    await expect(client.worker(queue, () => {}).run()).rejects.toBeInstanceOf(InvalidRequestError);
  });
});
