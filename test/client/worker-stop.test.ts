import { CancelledError, type LeasedTask, UnavailableError } from '@taskmaster/client';
import type { ReleaseOutcome } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { gatedHandler, named, workerSetUp } from './support/worker-set-up.ts';

/** A handler that ends only when its signal is aborted, and then as the test says. */
function endedBySignal(atEnd: (task: LeasedTask<string>) => void) {
  return (task: LeasedTask<string>): Promise<void> =>
    new Promise((resolve, reject) => {
      task.signal.addEventListener('abort', () => {
        try {
          atEnd(task);
          resolve();
        } catch (error) {
          reject(error);
        }
      });
    });
}

describe('stopping a worker', () => {
  test('waits for running handlers and releases at once tasks that were not begun, without counting the attempt', async () => {
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
    expect(begun).toEqual(['a']);
    expect((await queue.stats()).leased).toBeGreaterThan(1);
    const stopping = worker.stop();
    await timing.settled();
    expect((await queue.stats()).leased).toBe(1);
    expect((await queue.get(['b']))[0]).toMatchObject({ state: 'available', attempts: 0, interruptions: 0 });
    finish('a');
    await stopping;
    expect(heard).toEqual(['complete quick', 'complete a']);
    expect(await engine.pids('g#q')).toEqual(['b', 'c']);
    expect((await engine.figures()).waiters).toBe(0);
  });

  test('leaves tasks that cannot be released to others when their leases end', async () => {
    const { client, queue, engine, timing, transport } = workerSetUp();
    await queue.enqueueMany(named('a', 'b'));
    const worker = client.worker(queue, () => {}, { batch: { max: 3, maxWait: '10m' }, leaseDuration: '10s' });
    worker.start();
    await timing.settled();
    expect((await queue.stats()).leased).toBe(2);
    let refused = 0;
    transport.answers.updateTasks = (request, send) => {
      if (request.release.length === 0) return send();
      refused++;
      return Promise.reject(new UnavailableError('no', { reason: 'CONNECTION_FAILED' }));
    };
    const stopping = worker.stop();
    await timing.advance(60_000);
    await stopping;
    expect(refused).toBeGreaterThan(0);
    delete transport.answers.updateTasks;
    await timing.advance(11_000);
    expect((await queue.get(['a', 'b'])).map(({ state }) => state)).toEqual(['available', 'available']);
    expect(engine.updates.flatMap(({ renew }) => renew)).toEqual([]);
  });

  test('by a signal ends run()', async () => {
    const { client, queue, engine, timing } = workerSetUp();
    const stop = new AbortController();
    const running = client.worker(queue, () => {}).run({ signal: stop.signal });
    await timing.settled();
    stop.abort();
    await running;
    expect((await engine.figures()).waiters).toBe(0);
  });

  test('is harmless before the start and when repeated', async () => {
    const { client, queue, heard, hooks, timing } = workerSetUp();
    await queue.enqueue('a');
    const worker = client.worker(queue, () => {}, hooks);
    await worker.stop();
    await worker.stop();
    worker.start();
    await timing.settled();
    expect(heard).toEqual(['complete a']);
    await worker.stop();
  });
});

describe('a stop whose timeout is over', () => {
  test('aborts the signals of handlers, and releases the task of a handler that ignores it, without counting the attempt', async () => {
    const { client, queue, engine, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a', { pid: 'a', retry: { maxAttempts: 1 } });
    const tasks: LeasedTask<string>[] = [];
    const { begun, handler, finish } = gatedHandler();
    const worker = client.worker(
      queue,
      (task) => {
        tasks.push(task);
        return handler(task);
      },
      hooks,
    );
    worker.start();
    await timing.settled();
    const stopping = worker.stop({ timeout: '5s' });
    await timing.advance(4_999);
    expect(tasks[0]?.signal.aborted).toBe(false);
    await timing.advance(1);
    expect(tasks[0]?.signal.reason).toMatchObject({ reason: 'CANCELLED' });
    expect((await queue.stats()).leased).toBe(1);
    await timing.advance(1_000);
    await stopping;
    expect((await queue.get(['a']))[0]).toMatchObject({ state: 'available', attempts: 0, interruptions: 1 });
    expect(heard).toEqual(['lost a: CANCELLED']);

    // The handler still ends, but another worker may have the task by then.
    const sent = engine.updates.length;
    await expect(tasks[0]?.complete()).rejects.toBeInstanceOf(CancelledError);
    finish('a');
    await timing.advance(60_000);
    expect(begun).toEqual(['a']);
    expect(heard).toHaveLength(1);
    expect(engine.updates).toHaveLength(sent);
  });

  test('releases the task of a handler that throws at once, whatever its retry policy', async () => {
    const { client, queue, engine, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a', { pid: 'a', retry: { maxAttempts: 1 } });
    const worker = client.worker(
      queue,
      endedBySignal(() => {
        throw new Error('given up');
      }),
      hooks,
    );
    worker.start();
    await timing.settled();
    const stopping = worker.stop({ timeout: '5s' });
    await timing.advance(5_000);
    await stopping;
    expect((await queue.get(['a']))[0]).toMatchObject({ state: 'available', attempts: 0, interruptions: 1 });
    expect(await engine.pids('g#q.dead')).toEqual([]);
    expect(heard).toEqual([]);
  });

  test('lets a handler that returns complete its task', async () => {
    const { client, queue, engine, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a');
    const worker = client.worker(
      queue,
      endedBySignal(() => {}),
      hooks,
    );
    worker.start();
    await timing.settled();
    const stopping = worker.stop({ timeout: '5s' });
    await timing.advance(5_000);
    await stopping;
    expect(await engine.pids('g#q')).toEqual([]);
    expect(heard).toEqual(['complete a']);
  });

  test('ends earlier if a later stop has a shorter timeout', async () => {
    const { client, queue, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const worker = client.worker(queue, gatedHandler().handler);
    worker.start();
    await timing.settled();
    const ended: string[] = [];
    const { timers } = timing;
    void worker.stop({ timeout: '1h' }).then(() => ended.push('first'));
    void worker.stop({ timeout: '5s' }).then(() => ended.push('second'));
    void worker.stop({ timeout: '1m' }).then(() => ended.push('third'));
    await timing.advance(6_000);
    expect(ended.toSorted()).toEqual(['first', 'second', 'third']);
    expect((await queue.get(['a']))[0]).toMatchObject({ state: 'available' });
    expect(timing.timers).toBeLessThanOrEqual(timers);
  });

  test.each([
    ['a task is handled', true],
    ['a lease is under way', false],
  ])('does not wait for a silent node, while %s', async (_when, isHandling) => {
    const { client, queue, transport, timing } = workerSetUp();
    const { handler } = gatedHandler();
    const worker = client.worker(queue, handler);
    if (isHandling) await queue.enqueue('a');
    else transport.silent = true;
    worker.start();
    await timing.settled();
    transport.silent = true;
    let isStopped = false;
    void worker.stop({ timeout: '5s' }).then(() => {
      isStopped = true;
    });
    await timing.advance(8_000);
    expect(isStopped).toBe(true);
  });
});

describe('closing the client', () => {
  test('stops its workers first', async () => {
    const { client, queue, heard, hooks, timing } = workerSetUp();
    const { handler, finish } = gatedHandler();
    await queue.enqueue('a');
    client.worker(queue, handler, hooks).start();
    await timing.settled();
    const closing = client.close();
    await timing.settled();
    finish('a');
    await closing;
    expect(heard).toEqual(['complete a']);
  });

  test('waits for the shortest of the given timeouts, then releases the tasks of running handlers', async () => {
    const { client, queue, engine, transport, timing } = workerSetUp();
    const released: ReleaseOutcome[] = [];
    transport.answers.updateTasks = async (_request, send) => {
      const reply = await send();
      released.push(...reply.released);
      return reply;
    };
    await queue.enqueueMany(named('a', 'b'));
    client.worker(queue, gatedHandler().handler).start();
    client.worker(queue, gatedHandler().handler).start();
    await timing.settled();
    const closing = client.close({ timeout: '1h' });
    await timing.advance(60_000);
    expect(transport.closed).toBe(false);
    const sooner = client.close({ timeout: '5s' });
    await timing.advance(6_000);
    await Promise.all([closing, sooner]);
    expect(transport.closed).toBe(true);
    expect(engine.updates.flatMap(({ release }) => release)).toMatchObject([
      { pid: Buffer.from('a'), refundAttempt: true },
      { pid: Buffer.from('b'), refundAttempt: true },
    ]);
    expect(released).toEqual(Array(2).fill({ hiddenUntilUnixMs: 0, deadLetterQueue: '' }));
  });

  test('does not wait longer for cancelled leases', async () => {
    const { client, queue, transport, timing } = workerSetUp();
    transport.silent = true;
    const giveUp = new AbortController();
    const leasing = queue.lease({ wait: '5m', signal: giveUp.signal });
    await timing.settled();
    giveUp.abort();
    await expect(leasing).rejects.toBeInstanceOf(CancelledError);
    const closing = client.close({ timeout: '5s' });
    await timing.advance(5_000);
    await closing;
    expect(transport.closed).toBe(true);
  });

  test('with an invalid timeout is a TypeError', async () => {
    const { client } = workerSetUp();
    await expect(client.close({ timeout: -1 })).rejects.toBeInstanceOf(TypeError);
    await client.close();
  });
});
