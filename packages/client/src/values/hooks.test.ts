import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, onTestFinished, test } from 'vitest';
import { settled } from '../testing/manual-timing.ts';
import { only } from '../testing/only.ts';
import { workerSetUp } from '../testing/worker-set-up.ts';
import { callHook, inContext } from './hooks.ts';

/** The warnings of this process until the end of the test. */
function warnings(): { readonly code: string | undefined; readonly message: string }[] {
  const heard: { code: string | undefined; message: string }[] = [];
  const onWarning = ({ message, code }: Error & { code?: string }): void => void heard.push({ code, message });
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  return heard;
}

test.each([
  [
    'throws',
    () => {
      throw new Error('oops');
    },
  ],
  ['rejects', () => Promise.reject(new Error('oops'))],
])('a hook that %s is reported, and ends nothing', async (_how, onDone) => {
  const heard = warnings();
  callHook({ onDone }, 'onDone');
  await settled();
  expect(heard).toEqual([{ code: 'TASKMASTER_HOOK_FAILED', message: 'the hook onDone has failed: Error: oops' }]);
});

test('a hook that fails for every task is reported less and less often', async () => {
  const heard = warnings();
  const onDone = () => {
    throw new Error('oops');
  };
  for (let task = 0; task < 1_000; task++) callHook({ onDone }, 'onDone');
  await settled();
  expect(heard.map(({ message }) => message)).toEqual([
    'the hook onDone has failed: Error: oops',
    'the hook onDone has failed for the 10th time: Error: oops',
    'the hook onDone has failed for the 100th time: Error: oops',
    'the hook onDone has failed for the 1000th time: Error: oops',
  ]);
});

test.each(['onTaskCompleted', 'onAttemptFailed'] as const)(
  'a worker goes on after its hook %s has thrown',
  async (name) => {
    const heard = warnings();
    const { client, queue } = workerSetUp();
    await queue.enqueueMany(['a', 'b'].map((data) => ({ data, pid: data, retry: { maxAttempts: 1 } })));
    const handler = () => {
      if (name === 'onAttemptFailed') throw new Error('the handler fails');
    };
    const worker = client.worker(queue, handler, {
      [name]: () => {
        throw new Error('oops');
      },
    });
    worker.start();
    await settled();
    await settled();
    await worker.stop();
    expect(await queue.stats()).toMatchObject({ available: 0, leased: 0 });
    expect(heard.map(({ code }) => code)).toEqual(['TASKMASTER_HOOK_FAILED']);
  },
);

test('hooks and handlers run in the asynchronous context in which they were given', async () => {
  const storage = new AsyncLocalStorage<string>();
  const { client, queue, timing, transport } = workerSetUp();
  const seen: [string, string | undefined][] = [];
  const see = (what: string) => (): void => void seen.push([what, storage.getStore()]);
  await queue.enqueueMany(
    ['good', 'bad', 'lost'].map((data) => ({ data, pid: data, retry: { maxAttempts: 1 }, headers: {} })),
  );
  const gate = Promise.withResolvers<void>();
  const worker = storage.run('mine', () =>
    client.worker(
      queue,
      async (task) => {
        see('handler')();
        // Is not passed on to the next task.
        storage.enterWith(`of ${task.data}`);
        if (task.data === 'bad') throw new Error('bad');
        if (task.data === 'lost') await gate.promise;
      },
      {
        concurrency: 1,
        onTaskCompleted: see('completed'),
        onAttemptFailed: see('failed'),
        onLeaseLost: see('lost'),
        maxLeaseTime: '45s',
      },
    ),
  );
  storage.run('other', () => worker.start());
  await settled();
  await settled();
  transport.silent = 'updates';
  await storage.run('third', () => timing.advance(100_000));
  expect(seen.map(([, store]) => store)).toEqual(seen.map(() => 'mine'));
  expect(new Set(seen.map(([what]) => what))).toEqual(new Set(['handler', 'completed', 'failed', 'lost']));
  transport.silent = false;
  gate.resolve();
  await worker.stop();
});

test('without a hook there is nothing to bind', () => {
  expect(inContext(undefined)).toBeUndefined();
  expect(only([inContext((a: number) => a + 1)])(1)).toBe(2);
});
