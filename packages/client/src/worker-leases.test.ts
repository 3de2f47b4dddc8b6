import { describe, expect, test } from 'vitest';
import { LeaseLost, makeError } from './errors.ts';
import type { LeasedTask } from './leased-task.ts';
import { settled } from './testing/manual-timing.ts';
import { gatedHandler, named, workerSetUp } from './testing/worker-set-up.ts';

describe('leases of a worker', () => {
  test('are renewed for as long as the handler takes', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    const { handler, finish } = gatedHandler();
    await queue.enqueue('a');
    await using worker = client.worker(queue, handler, { ...hooks, lease: '30s' });
    worker.start();
    await timing.advance(300_000);
    expect(await queue.lease()).toEqual([]);
    finish('a');
    await settled();
    expect(heard).toEqual(['complete a']);
  });

  test('of a handler that hangs end after maxLeaseTime', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    const signals: AbortSignal[] = [];
    await queue.enqueue('a');
    const handler = (task: LeasedTask<string>): Promise<never> => {
      signals.push(task.signal);
      return new Promise(() => {});
    };
    const worker = client.worker(queue, handler, { ...hooks, lease: '30s', maxLeaseTime: '1m' });
    worker.start();
    await timing.advance(100_000);
    expect(heard).toEqual(['lost a: LEASE_EXPIRED']);
    expect(signals[0]?.aborted).toBe(true);
    expect(await queue.lease()).toHaveLength(1);
  });

  test('that are lost abort the signal of their task, and nothing more is sent for it', async () => {
    const { client, queue, engine, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const reasons: unknown[] = [];
    const handler = ({ signal }: LeasedTask<string>): Promise<void> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          resolve();
        });
      });
    await using worker = client.worker(queue, handler, hooks);
    worker.start();
    await settled();
    await queue.resetLeases();
    await queue.lease();
    await timing.advance(10_000);
    expect(reasons).toEqual([expect.any(LeaseLost)]);
    expect(heard).toEqual(['lost a: LEASE_LOST']);
    expect(engine.updates.every(({ dequeue }) => dequeue.length === 0)).toBe(true);
  });

  test('of a task whose completion cannot be sent run out, so that the task comes back', async () => {
    const { client, queue, transport, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const { begun, handler, finish } = gatedHandler();
    await using worker = client.worker(queue, handler, { ...hooks, lease: '30s' });
    worker.start();
    await settled();
    const internal = makeError('bug', { reason: 'INTERNAL' });
    transport.faults.updateTasks.push({ when: 'before', error: internal });
    finish('a');
    await timing.advance(31_000);
    expect(heard).toEqual(['error bug in a task']);
    expect(begun).toEqual(['a', 'a']);
    finish('a');
  });
});

describe('stopping a worker', () => {
  test('waits for what runs and gives back at once what was not begun, not counting the attempt', async () => {
    const { client, queue, engine, heard, hooks } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueue('quick', { pid: '0' });
    const worker = client.worker(queue, (task) => (task.data === 'quick' ? undefined : handler(task)), {
      ...hooks,
      prefetch: 2,
    });
    worker.start();
    await settled();
    await queue.enqueueMany(named('a', 'b', 'c'));
    await settled();
    await settled();
    expect(begun).toEqual(['a']);
    expect((await queue.stats()).leased).toBeGreaterThan(1);
    const stopping = worker.stop();
    await settled();
    expect((await queue.stats()).leased).toBe(1);
    expect((await queue.get(['b']))[0]).toMatchObject({ state: 'available', attempts: 0 });
    finish('a');
    await stopping;
    expect(heard).toEqual(['complete quick', 'complete a']);
    expect(engine.pids('g#q')).toEqual(['b', 'c']);
    expect(engine.waiting).toBe(0);
  });

  test('after its timeout tells handlers to stop, and renews their leases no more', async () => {
    const { client, queue, engine, timing } = workerSetUp();
    await queue.enqueue('a');
    const signals: AbortSignal[] = [];
    const worker = client.worker(queue, ({ signal }) => {
      signals.push(signal);
      return new Promise<void>(() => {});
    });
    worker.start();
    await settled();
    const stopping = worker.stop({ timeout: '5s' });
    await timing.advance(5_000);
    await stopping;
    expect(signals[0]?.reason).toMatchObject({ reason: 'CANCELLED' });
    const sent = engine.updates.length;
    await timing.advance(60_000);
    expect(engine.updates).toHaveLength(sent);
  });

  test('by a signal ends run()', async () => {
    const { client, queue, engine } = workerSetUp();
    const stop = new AbortController();
    const running = client.worker(queue, () => {}).run({ signal: stop.signal });
    await settled();
    stop.abort();
    await running;
    expect(engine.waiting).toBe(0);
  });

  test('is harmless before the start and when repeated; a worker runs once', async () => {
    const { client, queue } = workerSetUp();
    const worker = client.worker(queue, () => {});
    await worker.stop();
    await worker.stop();
    expect(() => worker.start()).toThrow(TypeError);
  });

  test('is what closing the client does first', async () => {
    const { client, queue, heard, hooks } = workerSetUp();
    const { handler, finish } = gatedHandler();
    await queue.enqueue('a');
    client.worker(queue, handler, hooks).start();
    await settled();
    const closing = client.close();
    await settled();
    finish('a');
    await closing;
    expect(heard).toEqual(['complete a']);
  });
});
