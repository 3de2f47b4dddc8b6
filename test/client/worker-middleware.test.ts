import { AsyncLocalStorage } from 'node:async_hooks';
import type { LeasedTask, Middleware } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { named, workerSetUp } from './support/worker-set-up.ts';

describe('middleware', () => {
  test('runs around the handler, the first one outermost, and what the handler returns counts', async () => {
    const { client, queue, heard, hooks, timing } = workerSetUp();
    const next = client.queue<string>('g#next');
    await queue.enqueue('a', { pid: 'a' });
    const log =
      (name: string): Middleware<LeasedTask<string>> =>
      async (task, proceed) => {
        heard.push(`${name} ${task.data}`);
        await proceed();
        heard.push(`${name} ends`);
      };
    await using worker = client
      .worker(queue, async () => ({ result: 1, enqueue: [next.task('b')] }), hooks)
      .use(log('outer'))
      .use(log('inner'));
    worker.start();
    await timing.settled();
    expect(heard).toEqual(['outer a', 'inner a', 'inner ends', 'outer ends', 'complete a']);
    expect(await next.stats()).toMatchObject({ available: 1 });
    expect(await queue.waitFor('a')).toBe(1);
  });

  test('that is added later is for tasks that begin later', async () => {
    const { client, queue, heard, timing } = workerSetUp();
    await using worker = client.worker(queue, () => {});
    worker.start();
    await queue.enqueue('a');
    await timing.settled();
    worker.use(async (task, next) => {
      heard.push(task.data);
      await next();
    });
    await queue.enqueue('b');
    await timing.settled();
    expect(heard).toEqual(['b']);
  });

  test('of batches gets the list of tasks', async () => {
    const { client, queue, heard, timing } = workerSetUp();
    await queue.enqueueMany(named('a', 'b'));
    await using worker = client.worker(queue, (tasks) => tasks.map(() => ({ result: 1 })), { batch: { max: 2 } });
    worker.use(async (tasks, next) => {
      heard.push(tasks.map(({ data }) => data).join());
      await next();
    });
    worker.start();
    await timing.settled();
    expect(heard).toEqual(['a,b']);
    expect(await queue.waitFor('b')).toBe(1);
  });

  const outcomes: readonly (readonly [what: string, middleware: Middleware<LeasedTask<string>>, ended: string])[] = [
    ['waits and returns nothing', async (_task, next) => void (await next()), 'completed with 1'],
    ['does not wait', async (_task, next) => void next(), 'completed with 1'],
    ['returns what next has given', async (_task, next) => (await next()) as { result: number }, 'completed with 1'],
    ['returns a result of its own', async (_task, next) => next().then(() => ({ result: 2 })), 'completed with 2'],
    ['returns a result without next', async () => ({ result: 3 }), 'completed with 3'],
    ['neither calls next nor returns', async () => {}, 'failed: middleware must call next'],
    ['settles the task without next', async (task) => task.complete({ result: 4 }).then(() => {}), 'completed with 4'],
    ['throws', () => Promise.reject(new Error('no rights')), 'failed: no rights'],
    [
      'throws at once',
      () => {
        throw new Error('at once');
      },
      'failed: at once',
    ],
    [
      'calls next twice',
      async (_task, next) => {
        await next();
        await next();
      },
      'failed: middleware has called next twice',
    ],
    ['returns what cannot be meant', async () => ({ resutl: 1 }) as object, 'failed: what a handler returns'],
  ];
  test.each(outcomes)('that %s', async (_what, middleware, ended) => {
    const { client, queue, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a', retry: { maxAttempts: 1 } });
    await using worker = client.worker(queue, async () => ({ result: 1 })).use(middleware);
    worker.start();
    await timing.settled();
    const { outcome, result, error } = await queue.waitForEnd('a');
    const shown = outcome === 'completed' ? `completed with ${result}` : `failed: ${error?.replace(/^\w+: /, '')}`;
    expect(shown).toContain(ended);
  });

  const failing: readonly (readonly [what: string, middleware: Middleware<LeasedTask<string>>, outcome: string])[] = [
    ['passes an error on', async (_task, next) => void (await next()), 'dead-lettered'],
    ['does not wait for it', async (_task, next) => void next(), 'dead-lettered'],
    [
      'catches it',
      async (_task, next) =>
        next().then(
          () => {},
          () => ({ result: 'caught' }),
        ),
      'completed',
    ],
    // Completed without a result.
    ['catches it and returns nothing', async (_task, next) => void (await next().catch(() => {})), 'unknown'],
    [
      'throws another one',
      async (_task, next) => {
        await next().catch((cause) => Promise.reject(new Error('other', { cause })));
      },
      'dead-lettered',
    ],
  ];
  test.each(failing)('of a handler that fails: it %s', async (_what, middleware, wanted) => {
    const { client, queue, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a', retry: { maxAttempts: 1 } });
    await using worker = client
      .worker(queue, async () => {
        await Promise.resolve();
        throw new Error('bad');
      })
      .use(middleware);
    worker.start();
    await timing.settled();
    expect((await queue.waitForEnd('a')).outcome).toBe(wanted);
  });

  test('is a function', () => {
    const { client, queue } = workerSetUp();
    expect(() => client.worker(queue, () => {}).use('log' as never)).toThrow('use: must be a function');
  });

  test('gives its asynchronous context to the handler and to the hooks of the task', async () => {
    const storage = new AsyncLocalStorage<string>();
    const { client, queue, timing } = workerSetUp();
    const seen: string[] = [];
    const see = (what: string) => (): void => void seen.push(`${what} in ${storage.getStore()}`);
    const tasks = ['good', 'bad', 'cancelled'].map((data) => ({ data, pid: data, retry: { maxAttempts: 1 } }));
    await queue.enqueueMany(tasks);
    await using worker = client.worker(
      queue,
      async (task) => {
        see('handler')();
        if (task.data === 'cancelled') await queue.cancel('cancelled').then(() => task.renew());
        if (task.data !== 'good') throw new Error('bad');
      },
      {
        onTaskStarted: see('started'),
        onTaskCompleted: see('completed'),
        onAttemptFailed: see('failed'),
        onTaskCancelled: see('cancelled'),
      },
    );
    worker.use(async (task, next) => storage.run(task.data, async () => void (await next())));
    worker.start();
    await timing.settled();
    for (const [data, end] of [
      ['bad', 'failed'],
      ['cancelled', 'cancelled'],
      ['good', 'completed'],
    ]) {
      const own = seen.filter((one) => one.endsWith(` in ${data}`));
      expect(own).toEqual([`started in ${data}`, `handler in ${data}`, `${end} in ${data}`]);
    }
    expect(seen).toHaveLength(9);
  });
});

test('hooks hear how long a handler ran, and none for one that never began', async () => {
  const { client, queue, timing } = workerSetUp();
  const heard: string[] = [];
  const tasks = ['good', 'bad'].map((data) => ({ data, pid: data, retry: { maxAttempts: 1 } }));
  await queue.enqueueMany(tasks);
  await using worker = client.worker(
    queue,
    async (task) => {
      timing.block(task.data === 'good' ? 250 : 30);
      if (task.data === 'bad') throw new Error('bad');
    },
    {
      onTaskCompleted: (task, { durationMs }) => heard.push(`${task.data} ${durationMs}`),
      onAttemptFailed: (_error, task, run) => heard.push(`${task?.data} ${run?.durationMs}`),
    },
  );
  worker.start();
  await timing.settled();
  expect(heard.toSorted()).toEqual(['bad 30', 'good 250']);
});
