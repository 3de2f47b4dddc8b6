import { describe, expect, test } from 'vitest';
import { gatedHandler, named, workerSetUp } from './support/worker-set-up.ts';

describe('the concurrency of a worker that runs', () => {
  test('grows at once', async () => {
    const { client, queue, timing } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueueMany(named('a', 'b', 'c', 'd'));
    const worker = client.worker(queue, handler);
    worker.start();
    await timing.settled();
    expect(begun).toEqual(['a']);
    worker.concurrency = 3;
    expect(worker.concurrency).toBe(3);
    await timing.settled();
    expect(begun).toEqual(['a', 'b', 'c']);
    for (const data of begun) finish(data);
    await timing.settled();
    finish('d');
    await worker.stop();
  });

  test('shrinks when handlers end, and tasks that were leased in advance go to others', async () => {
    const { client, queue, timing } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueue('quick', { pid: '0' });
    const worker = client.worker(queue, (task) => (task.data === 'quick' ? undefined : handler(task)), {
      concurrency: 2,
    });
    worker.start();
    await timing.settled();
    await queue.enqueueMany(named('a', 'b', 'c', 'd', 'e'));
    await timing.settled();
    expect(begun).toEqual(['a', 'b']);
    expect((await queue.stats()).leased).toBeGreaterThan(2);
    worker.concurrency = 1;
    await timing.settled();
    expect(worker.active).toBe(2);
    expect((await queue.stats()).leased).toBe(2);
    expect((await queue.get(['c']))[0]).toMatchObject({ state: 'available', attempts: 0, interruptions: 0 });
    finish('a');
    await timing.settled();
    expect(begun).toEqual(['a', 'b']);
    finish('b');
    await timing.settled();
    expect(begun).toEqual(['a', 'b', 'c']);
    for (const data of ['c', 'd', 'e']) {
      finish(data);
      await timing.settled();
    }
    await worker.stop();
    expect(begun).toHaveLength(5);
  });

  test('sets the prefetch, unless the options name one', async () => {
    const { client, queue, engine, timing } = workerSetUp();
    await queue.enqueueMany(named(...'abcdefghijkl'));
    const worker = client.worker(queue, () => {}, { concurrency: 1 });
    worker.concurrency = 4;
    worker.start();
    await timing.settled();
    expect(Math.max(...engine.leases.map(({ maxTasks }) => maxTasks))).toBe(8);
    await worker.stop();
  });

  test.each([0, -1, 1.5, Number.NaN, '2'])('is not %j', (concurrency) => {
    const { client, queue } = workerSetUp();
    const worker = client.worker(queue, () => {}, { concurrency: 2 });
    expect(() => {
      worker.concurrency = concurrency as number;
    }).toThrow(TypeError);
    expect(worker.concurrency).toBe(2);
  });
});

describe('a paused worker', () => {
  test('leases nothing, releases what it has not begun, and lets its handlers end', async () => {
    const { client, queue, engine, heard, hooks, timing } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueue('quick', { pid: '0' });
    const worker = client.worker(queue, (task) => (task.data === 'quick' ? undefined : handler(task)), {
      ...hooks,
      prefetch: 2,
    });
    worker.start();
    await timing.settled();
    await queue.enqueueMany(named('a', 'b', 'c'));
    await timing.settled();
    expect((await queue.stats()).leased).toBeGreaterThan(1);
    let isQuiet = false;
    const pausing = worker.pause().then(() => {
      isQuiet = true;
    });
    expect(worker.isPaused).toBe(true);
    await timing.settled();
    expect((await queue.stats()).leased).toBe(1);
    expect((await engine.figures()).waiters).toBe(0);
    expect(isQuiet).toBe(false);
    finish('a');
    await pausing;
    expect(heard.at(-1)).toBe('complete a');
    await timing.advance(120_000);
    expect(begun).toEqual(['a']);
    worker.resume();
    expect(worker.isPaused).toBe(false);
    await timing.settled();
    expect(begun).toEqual(['a', 'b']);
    finish('b');
    await timing.settled();
    finish('c');
    await worker.stop();
    expect(await engine.pids('g#q')).toEqual([]);
  });

  test('gives back what the request brings that was on its way', async () => {
    const { client, queue, transport, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const gate = Promise.withResolvers<void>();
    transport.answers.leaseTasks = async (_request, send) => {
      const reply = await send();
      await gate.promise;
      return reply;
    };
    let runs = 0;
    const worker = client.worker(queue, () => void runs++);
    worker.start();
    await timing.settled();
    const pausing = worker.pause();
    gate.resolve();
    await pausing;
    await timing.settled();
    expect(runs).toBe(0);
    expect((await queue.get(['a']))[0]).toMatchObject({ state: 'available', attempts: 0 });
    await worker.stop();
  });

  test('may be paused before its start, resumed and paused again in one turn, and stopped', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a');
    const worker = client.worker(queue, () => {}, hooks);
    await worker.pause();
    worker.start();
    await timing.settled();
    expect(heard).toEqual([]);
    worker.resume();
    void worker.pause();
    worker.resume();
    await timing.settled();
    expect(heard).toEqual(['complete a']);
    const pausing = worker.pause();
    await worker.stop();
    await pausing;
    worker.resume();
    await client.close();
  });
});

describe('a worker that has stopped', () => {
  test('starts again, also for run(), and does not count handlers that have never ended', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueue('a', { pid: 'a' });
    const worker = client.worker(queue, handler, { ...hooks, concurrency: 1 });
    worker.start();
    expect(() => worker.start()).toThrow('the worker runs already');
    await timing.settled();
    const stopping = worker.stop({ timeout: 0 });
    expect(() => worker.start()).toThrow(TypeError);
    await timing.advance(5_000);
    await stopping;
    expect(heard).toEqual(['lost a: CANCELLED']);
    const running = worker.run();
    await timing.settled();
    expect(begun).toEqual(['a', 'a']);
    expect(worker.active).toBe(1);
    finish('a');
    await timing.settled();
    expect(heard).toEqual(['lost a: CANCELLED', 'complete a']);
    const ending = worker.stop();
    await timing.settled();
    await Promise.all([ending, running]);
  });
});

describe('an idle worker', () => {
  const tellsOf = () => {
    const made = workerSetUp();
    const told: string[] = [];
    const hooks = {
      onTaskStarted: ({ data }: { data: string }) => void told.push(`begin ${data}`),
      onTaskCompleted: ({ data }: { data: string }) => void told.push(`complete ${data}`),
      onDrained: () => void told.push('drained'),
      onIdle: () => void told.push('idle'),
    };
    return { ...made, told, hooks };
  };

  test('says so once, after the queue is drained and its tasks have ended, and again after the next task', async () => {
    const { client, queue, timing, told, hooks } = tellsOf();
    const { handler, finish } = gatedHandler();
    const worker = client.worker(queue, handler, { ...hooks, concurrency: 2 });
    worker.start();
    await timing.settled();
    expect(told.splice(0)).toEqual(['drained', 'idle']);
    await timing.advance(120_000);
    expect(told).toEqual([]);
    await queue.enqueue('a');
    await timing.settled();
    expect(told.splice(0)).toEqual(['begin a', 'drained']);
    finish('a');
    await timing.settled();
    expect(told.splice(0)).toEqual(['complete a', 'idle']);
    await worker.stop();
  });

  test('is not idle while what its tasks have enqueued waits for it', async () => {
    const { client, queue, timing, told, hooks } = tellsOf();
    await queue.enqueue('aaa');
    const worker = client.worker(
      queue,
      async ({ data }) => ({ enqueue: data === 'a' ? [] : [queue.task(data.slice(1))] }),
      { ...hooks, concurrency: 5, prefetch: 0 },
    );
    worker.start();
    await timing.settled();
    expect(told.filter((one) => one === 'idle')).toHaveLength(1);
    expect(told.at(-1)).toBe('idle');
    expect(told.filter((one) => one.startsWith('complete'))).toHaveLength(3);
    await worker.stop();
  });

  test('can be awaited, also in the middle of a long poll', async () => {
    const { client, queue, engine, timing, heard, hooks } = workerSetUp();
    const worker = client.worker(queue, () => {}, hooks);
    await expect(worker.untilIdle()).rejects.toThrow('the worker does not run');
    worker.start();
    await timing.settled();
    // Without hooks and waits it does not ask whether the queue is empty.
    expect(engine.leases.every(({ waitMs }) => waitMs > 0)).toBe(true);
    await queue.enqueueMany(named('a', 'b', 'c'));
    await worker.untilIdle();
    expect(heard).toEqual(['complete a', 'complete b', 'complete c']);
    await worker.untilIdle();
    const paused = worker.pause();
    await paused;
    await queue.enqueue('d');
    const idle = worker.untilIdle();
    worker.resume();
    await idle;
    expect(heard).toHaveLength(4);
    const waiting = worker.pause().then(() => worker.untilIdle());
    await timing.settled();
    await worker.stop();
    await waiting;
  });

  test('is awaited no more when its requests are refused', async () => {
    const { client, timing } = workerSetUp();
    const worker = client.worker('x'.repeat(600), () => {});
    worker.start();
    const idle = worker.untilIdle();
    idle.catch(() => {});
    await timing.settled();
    await expect(idle).rejects.toMatchObject({ code: 3 });
  });
});
