import { type LeasedTask, TimeLimitError, UnrecoverableError, type WorkerOptions } from '@taskmaster/client';
import { sleep } from '@taskmaster/client/internal';
import { only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { workerSetUp } from './support/worker-set-up.ts';

const OVER = 'the attempt exceeded its time limit of 5000 ms';

/** Throws what the signal says when it is aborted. */
const untilAborted = ({ signal }: LeasedTask<string>): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));

interface RunOptions extends WorkerOptions<string> {
  /** How long lease requests are on their way. Default 0. */
  readonly delayMs?: number;
  /** Default: that of the queue. */
  readonly maxAttempts?: number;
}

/** A worker with a task whose attempts may take 5 s. */
async function run(
  handler: (task: LeasedTask<string>) => void | Promise<void>,
  { delayMs = 0, maxAttempts, ...options }: RunOptions = {},
) {
  const made = workerSetUp();
  const { transport, timing, queue, client, hooks } = made;
  transport.answers.leaseTasks = async (_request, send) => {
    await sleep(timing, delayMs);
    return send();
  };
  await queue.enqueue('a', {
    pid: 'a',
    timeLimit: '5s',
    retry: maxAttempts === undefined ? undefined : { maxAttempts },
  });
  const worker = client.worker(queue, handler, { ...hooks, backoff: () => '1m' as const, ...options });
  worker.start();
  await timing.settled();
  await timing.advance(delayMs);
  return made;
}

describe('a handler at its time limit', () => {
  test.each(['1s', '4s', '5s', '30s', '1h'] as const)('gets it as signal, with leases of %s', async (leaseDuration) => {
    const reasons: unknown[] = [];
    const handler = async (task: LeasedTask<string>): Promise<void> => {
      expect(task.timeLimitMs).toBe(5000);
      await untilAborted(task).catch((error: unknown) => reasons.push(error));
      throw new Error('gave up');
    };
    const { timing, heard, engine } = await run(handler, { leaseDuration });
    await timing.advance(4999);
    expect(reasons).toEqual([]);
    await timing.advance(1);
    expect(reasons).toEqual([expect.any(TimeLimitError)]);
    await timing.settled();
    // What it throws afterwards is a consequence. The node has noted the failure, so the refused release is no fault.
    expect(heard).toEqual([`error ${OVER} in a task`]);
    expect(engine.updates.filter(({ release }) => release.length > 0)).toHaveLength(1);
  });

  test('is released with the error if the node has granted the lease later than the worker counts', async () => {
    const { timing, heard, queue } = await run(untilAborted, { delayMs: 50 });
    await timing.advance(4950);
    await timing.settled();
    expect(heard).toEqual([`error ${OVER} in a task`]);
    const task = only(await queue.get(['a'], { data: false }));
    expect(task).toMatchObject({ state: 'delayed', timeLimitMs: 5000, attempts: 1 });
    expect(only(task.failures).error?.message).toBe(`TimeLimitError: ${OVER}`);
  });

  test('has failed for the last time: its task is in the dead-letter queue, which is no fault either', async () => {
    const { timing, heard, engine } = await run(untilAborted, { maxAttempts: 1 });
    await timing.advance(5000);
    expect(heard).toEqual([`error ${OVER} in a task`]);
    expect(engine.updates.filter(({ release }) => release.length > 0)).toHaveLength(1);
    expect(await engine.pids('g#q.dead')).toEqual(['a']);
  });

  test('costs no renewals that would extend nothing', async () => {
    const { timing, engine } = await run(untilAborted, { leaseDuration: '3s' });
    await timing.advance(4999);
    const times = engine.updates.filter(({ renew }) => renew.length > 0).length;
    // After 1 s and 2 s. From then on the lease lasts until the limit.
    expect(times).toBe(2);
  });

  test('costs no renewal at all if the lease lasts until the limit', async () => {
    const { timing, engine } = await run(() => new Promise(() => {}));
    await timing.advance(4999);
    expect(engine.updates.flatMap(({ renew }) => renew)).toEqual([]);
  });

  test('may complete its task nevertheless, unless another worker has it', async () => {
    const { timing, heard, engine } = await run(async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    });
    await timing.advance(5000);
    await timing.settled();
    expect(heard).toEqual(['complete a']);
    expect(await engine.pids('g#q')).toEqual([]);
  });

  test('that hangs keeps the task from no other worker', async () => {
    const { timing, heard, queue } = await run(() => new Promise(() => {}), { prefetch: 0 });
    await timing.advance(5000);
    // The task comes back after a backoff, here half of a second.
    const leasing = queue.lease({ wait: '1s' });
    await timing.advance(1000);
    expect(await leasing).toHaveLength(1);
    expect(heard).toEqual(['lost a: LEASE_LOST']);
  });

  test('may say that no attempt can help', async () => {
    const handler = async (task: LeasedTask<string>): Promise<void> => {
      await untilAborted(task).catch(() => {});
      throw new UnrecoverableError('too large');
    };
    const { timing, heard, engine } = await run(handler, { delayMs: 50 });
    await timing.advance(4950);
    await timing.settled();
    expect(heard).toEqual(['error too large in a task']);
    expect(await engine.pids('g#q.dead')).toEqual(['a']);
  });

  test('is told of a cancellation first', async () => {
    const reasons: unknown[] = [];
    const handler = async (task: LeasedTask<string>): Promise<void> => {
      await untilAborted(task).catch((error: Error) => reasons.push(error.name));
      await new Promise(() => {});
    };
    const { timing, queue } = await run(handler);
    await queue.cancel('a', { reason: 'not wanted' });
    await timing.advance(6000);
    expect(reasons).toEqual(['TaskCancelledError']);
  });
});

test('a task that fails before its limit keeps its own error', async () => {
  const { heard, queue, timing } = await run(() => {
    throw new Error('no route');
  });
  await timing.settled();
  expect(heard).toEqual(['error no route in a task']);
  const { failures } = only(await queue.get(['a'], { data: false }));
  expect(only(failures).error?.message).toBe('Error: no route');
});
