import { type Handler, type ResultSettings, textCodec } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { workerSetUp } from './support/worker-set-up.ts';

/** A worker whose handler has a task once. */
async function once(handler: Handler<string>, results?: ResultSettings) {
  const made = workerSetUp();
  await made.queue.enqueue('a', { pid: 'a' });
  const worker = made.client.worker(made.queue, handler, { ...made.hooks, backoff: () => '1m', results });
  worker.start();
  await made.timing.settled();
  await worker.stop();
  return made;
}

describe('a worker with results', () => {
  test.each([
    ['what its handler returns', async () => ({ result: { total: 7 } }), { total: 7 }],
    ['a result that looks like the whole', () => ({ result: { enqueue: [] } }), { enqueue: [] }],
    ['undefined', () => ({ result: undefined }), undefined],
  ])('leaves %s', async (_what, handler, expected) => {
    const { queue } = await once(handler);
    expect(await queue.waitForEnd('a')).toMatchObject({ outcome: 'completed', result: expected });
  });

  test('leaves a result and enqueues tasks, in one update', async () => {
    const { client } = workerSetUp();
    const { queue, engine } = await once(() => ({ result: 7, enqueue: [client.queue('g#next').task('b')] }));
    expect(await queue.waitFor('a')).toBe(7);
    expect(engine.updates.at(-1)).toMatchObject({ enqueue: [{ queue: 'g#next' }], dequeue: [{ queue: 'g#q' }] });
  });

  test.each([
    [{ total: 7 }, 'what a handler returns: there is no total, only result and enqueue'],
    [{ enqeue: [] }, 'what a handler returns: there is no enqeue, did you mean enqueue?'],
    [{ result: 7, next: [] }, 'what a handler returns: there is no next, only result and enqueue'],
    [7, 'a handler returns nothing, or { result, enqueue }, and not 7'],
    ['painted', 'a handler returns nothing, or { result, enqueue }, and not painted'],
    [false, 'a handler returns nothing, or { result, enqueue }, and not false'],
    [[7], 'what a handler returns: there is no 0, only result and enqueue'],
    [{ enqueue: 'g#next' }, 'enqueue: must be a list of tasks that queue.task() has made'],
    [{ enqueue: [{ data: 7 }] }, 'enqueue: must be a list of tasks that queue.task() has made'],
  ])('fails the attempt of a handler that returns %j', async (returned, message) => {
    const { queue, heard } = await once((() => returned) as unknown as Handler<string>);
    expect(heard).toEqual([`error ${message} in a task`]);
    const [info] = await queue.get(['a'], { data: false });
    expect(info).toMatchObject({ state: 'delayed', failures: [{ error: { message: `TypeError: ${message}` } }] });
  });

  test('keeps results for its time, with its codec', async () => {
    const { queue, engine } = await once(() => ({ result: 'text' }), { retention: '2h', codec: textCodec });
    expect(await queue.waitFor('a', { codec: textCodec })).toBe('text');
    expect(engine.updates.at(-1)?.dequeue).toMatchObject([{ resultRetentionMs: 7_200_000 }]);
  });

  test('fails the attempt if the result cannot be encoded', async () => {
    const { queue, heard } = await once(() => ({ result: 1n }));
    expect(heard).toEqual([expect.stringMatching(/^error the result cannot be encoded: .* in a task$/)]);
    const { failures } = only(await queue.get(['a'], { data: false }));
    expect(failures).toHaveLength(1);
  });

  test('leaves the result that its handler has left itself', async () => {
    const { queue, heard } = await once(async (task) => {
      await task.complete({ result: 'own' });
      return { result: 'other' };
    });
    expect([await queue.waitFor('a'), heard]).toEqual([
      'own',
      ['error the handler has completed or released its task, so what it returns has no effect in a task'],
    ]);
  });

  test('refuses settings that cannot be meant', async () => {
    // @ts-expect-error
    await expect(once(() => {}, true)).rejects.toThrow(/^results: must be an object with retention and codec$/);
    // @ts-expect-error
    await expect(once(() => {}, { retain: '1h' })).rejects.toThrow(/^results: there is no retain/);
    // @ts-expect-error
    await expect(once(() => {}, { retention: 'soon' })).rejects.toThrow(/^results.retention: 'soon'/);
  });
});

test('a worker without results leaves none, and sends what it sent before', async () => {
  const { client, queue, engine, hooks, timing } = workerSetUp();
  await queue.enqueue('a', { pid: 'a' });
  const worker = client.worker(queue, async () => {}, hooks);
  worker.start();
  await timing.settled();
  await worker.stop();
  expect(engine.updates.at(-1)?.dequeue).toEqual([
    { queue: 'g#q', pid: Buffer.from('a'), leaseToken: expect.any(Number), requeue: false },
  ]);
  expect(await queue.waitForEnd('a')).toMatchObject({ outcome: 'unknown' });
});

test('the compiler refuses handlers that return something else', () => {
  const { client, queue } = workerSetUp();
  const next = client.queue<string>('g#next');
  client.worker(queue, async () => ({ result: 7, enqueue: [next.task('b')] }));
  client.worker(queue, () => ({ enqueue: [next.task('b')] }));
  // @ts-expect-error
  client.worker(queue, async () => ({ total: 7 }));
  // @ts-expect-error
  client.worker(queue, () => 7);
  // @ts-expect-error
  client.worker(queue, async () => [next.task('b')]);
  // @ts-expect-error
  client.worker(queue, () => ({ enqueue: next.task('b') }));
});
