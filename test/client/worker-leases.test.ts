import { type LeasedTask, LeaseLostError } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { describe, expect, onTestFinished, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';
import { gatedHandler, workerSetUp } from './support/worker-set-up.ts';

describe('leases of a worker', () => {
  test('are renewed for as long as the handler takes', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    const { handler, finish } = gatedHandler();
    await queue.enqueue('a');
    await using worker = client.worker(queue, handler, { ...hooks, leaseDuration: '30s' });
    worker.start();
    await timing.advance(300_000);
    expect(await queue.lease()).toEqual([]);
    finish('a');
    await timing.settled();
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
    const worker = client.worker(queue, handler, { ...hooks, leaseDuration: '30s', maxLeaseTime: '1m' });
    worker.start();
    await timing.advance(100_000);
    expect(heard).toEqual(['lost a: LEASE_EXPIRED']);
    expect(signals[0]?.aborted).toBe(true);
    expect(await queue.lease()).toHaveLength(1);
  });

  test('of tasks leased ahead that have ended do not begin: the tasks begin on their next leases', async () => {
    const { client, queue, timing, heard, hooks } = workerSetUp();
    const { begun, handler, finish } = gatedHandler();
    const options = { ...hooks, concurrency: 1, prefetch: 10, leaseDuration: '30s', maxLeaseTime: '1m' } as const;
    await using worker = client.worker(queue, handler, options);
    worker.start();
    // Tasks are leased ahead when one has been quick.
    await queue.enqueue('a');
    await timing.settled();
    finish('a');
    await queue.enqueueMany(['b', 'c'].map((data) => ({ data })));
    await timing.advance(100_000);
    expect(begun).toEqual(['a', 'b']);
    finish('b');
    await timing.settled();
    finish('c');
    await timing.settled();
    finish('b');
    await timing.settled();
    // Both once more, because both leases had ended.
    expect(begun).toEqual(['a', 'b', 'c', 'b']);
    const lost = ['lost b: LEASE_EXPIRED', 'lost c: LEASE_EXPIRED'];
    expect(heard).toEqual(['complete a', ...lost, 'complete c', 'complete b']);
  });

  test.each(['reads its signal', 'does not'])(
    'that end after maxLeaseTime are warned of once, if a handler %s',
    async (how) => {
      const warnings: (string | undefined)[] = [];
      const onWarning = ({ code }: Error & { code?: string }): unknown => warnings.push(code);
      process.on('warning', onWarning);
      onTestFinished(() => void process.off('warning', onWarning));
      const { client, queue, timing } = workerSetUp();
      await queue.enqueueMany(['a', 'b'].map((data) => ({ data })));
      const handler = (task: LeasedTask<string>): Promise<never> => {
        if (how === 'reads its signal') void task.signal;
        return new Promise(() => {});
      };
      const options = { leaseDuration: '30s', maxLeaseTime: '1m', concurrency: 2 } as const;
      client.worker(queue, handler, options).start();
      await timing.advance(59_000);
      expect(warnings).toEqual([]);
      await timing.advance(100_000);
      expect(warnings).toEqual(['TASKMASTER_HANDLER_TOO_LONG']);
    },
  );

  test('that are lost abort the signal of their task, and no more requests are sent for it', async () => {
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
    await timing.settled();
    await queue.resetLeases();
    await queue.lease();
    await timing.advance(10_000);
    expect(reasons).toEqual([expect.any(LeaseLostError)]);
    expect(heard).toEqual(['lost a: LEASE_LOST']);
    expect(engine.updates.every(({ dequeue }) => dequeue.length === 0)).toBe(true);
  });

  test('of a task whose completion cannot be sent expire, so that the task comes back', async () => {
    const { client, queue, transport, timing, heard, hooks } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const { begun, handler, finish } = gatedHandler();
    await using worker = client.worker(queue, handler, { ...hooks, leaseDuration: '30s' });
    worker.start();
    await timing.settled();
    const internal = makeError('bug', { reason: 'INTERNAL' });
    transport.faults.updateTasks.push({ when: 'before', error: internal });
    finish('a');
    await timing.advance(31_000);
    expect(heard).toEqual(['error bug in a task']);
    expect(begun).toEqual(['a', 'a']);
    finish('a');
  });
});

test('an in-process client renews on this thread, because only this thread reaches the engine', async () => {
  const { client, timing, engine } = clientSetUp();
  const queue = client.queue<string>('q');
  await queue.enqueue('a');
  const { promise, resolve } = Promise.withResolvers<void>();
  await using worker = client.worker(queue, () => promise);
  worker.start();
  await timing.advance(60_000);
  expect(engine.updates.filter(({ renew }) => renew.length > 0).length).toBeGreaterThan(4);
  resolve();
});
