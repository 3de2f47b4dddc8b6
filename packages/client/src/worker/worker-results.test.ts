import { describe, expect, test } from 'vitest';
import { settled } from '../testing/manual-timing.ts';
import { only } from '../testing/only.ts';
import { workerSetUp } from '../testing/worker-set-up.ts';
import { textCodec } from '../values/codec.ts';
import type { ResultHandler, ResultWorkerOptions } from './worker-options.ts';

/** A worker with results whose handler has a task once. */
async function once(handler: ResultHandler<string>, results: ResultWorkerOptions['results'] = true) {
  const made = workerSetUp();
  await made.queue.enqueue('a', { pid: 'a' });
  const worker = made.client.worker(made.queue, handler, { ...made.hooks, backoff: () => '1m', results });
  worker.start();
  await settled();
  await settled();
  await worker.stop();
  return made;
}

describe('a worker with results', () => {
  test.each([
    ['what its handler returns', async () => ({ total: 7 }), { total: 7 }],
    ['also a list of tasks as a value', () => ({ enqueue: [] }), { enqueue: [] }],
    ['nothing if it returns nothing', () => {}, undefined],
  ])('leaves %s', async (_what, handler, expected) => {
    const { queue } = await once(handler);
    expect(await queue.waitForEnd('a')).toMatchObject({ outcome: 'completed', result: expected });
  });

  test('keeps results for its time, with its codec', async () => {
    const { queue, engine } = await once(() => 'text', { retention: '2h', codec: textCodec });
    expect(await queue.waitFor('a', { codec: textCodec })).toBe('text');
    expect(engine.updates.at(-1)?.dequeue).toMatchObject([{ resultRetentionMs: 7_200_000 }]);
  });

  test('fails the attempt if the result cannot be encoded', async () => {
    const { queue, heard } = await once(() => 1n);
    expect(heard).toEqual([expect.stringMatching(/^error the result cannot be encoded: .* in a task$/)]);
    const { failures } = only(await queue.get(['a'], { data: false }));
    expect(failures).toHaveLength(1);
  });

  test('leaves the result that its handler has left itself', async () => {
    const { queue, heard } = await once(async (task) => {
      await task.complete({ result: 'own' });
      return 'other';
    });
    expect([await queue.waitFor('a'), heard]).toEqual(['own', []]);
  });

  test('refuses a wrong retention', async () => {
    // @ts-expect-error
    await expect(once(() => 1, { retention: 'soon' })).rejects.toThrow(/^results.retention: 'soon'/);
  });
});

test('a worker without results leaves none, and sends what it sent before', async () => {
  const { client, queue, engine, hooks } = workerSetUp();
  await queue.enqueue('a', { pid: 'a' });
  const worker = client.worker(queue, async () => {}, hooks);
  worker.start();
  await settled();
  await settled();
  await worker.stop();
  expect(engine.updates.at(-1)?.dequeue).toEqual([
    { queue: 'g#q', pid: Buffer.from('a'), leaseToken: 1, requeue: false },
  ]);
  expect(await queue.waitForEnd('a')).toMatchObject({ outcome: 'unknown' });
});
