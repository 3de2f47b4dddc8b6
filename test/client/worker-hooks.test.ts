import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, onTestFinished, test } from 'vitest';
import { workerSetUp } from './support/worker-set-up.ts';

test.each(['onTaskCompleted', 'onAttemptFailed'] as const)(
  'a worker goes on after its hook %s has thrown',
  async (name) => {
    const codes: (string | undefined)[] = [];
    const onWarning = ({ code }: Error & { code?: string }): void => void codes.push(code);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const { client, queue, timing } = workerSetUp();
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
    await timing.settled();
    await worker.stop();
    expect(await queue.stats()).toMatchObject({ available: 0, leased: 0 });
    expect(codes).toEqual(['TASKMASTER_HOOK_FAILED']);
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
  await timing.settled();
  transport.silent = 'updateTasks';
  await storage.run('third', () => timing.advance(100_000));
  expect(seen.map(([, store]) => store)).toEqual(seen.map(() => 'mine'));
  expect(new Set(seen.map(([what]) => what))).toEqual(new Set(['handler', 'completed', 'failed', 'lost']));
  transport.silent = false;
  gate.resolve();
  await worker.stop();
});
