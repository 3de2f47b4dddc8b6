import { type LeasedTask, pidText, TaskCancelledError } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { connectionLost } from '@taskmaster/client/testing';
import { limits, WaitForTasksRequest } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { gatedHandler, named, workerSetUp } from './support/worker-set-up.ts';

/** A worker whose handlers wait until they are told to stop. */
function setUp(options: { readonly leaseDuration?: '30s' | '3s' } = {}) {
  const made = workerSetUp();
  const reasons: unknown[] = [];
  const until = ({ signal }: LeasedTask<string>): Promise<void> =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        reasons.push(signal.reason);
        reject(new Error('stopped'));
      });
    });
  const onTaskCancelled = (task: LeasedTask<string>, { cancelReason }: TaskCancelledError): void =>
    void made.heard.push(`cancelled ${task.data}: ${cancelReason}`);
  const worker = made.client.worker(made.queue, until, {
    ...made.hooks,
    onTaskCancelled,
    concurrency: 10,
    leaseDuration: options.leaseDuration ?? '30s',
  });
  return { ...made, worker, reasons };
}

describe('a running task that is cancelled', () => {
  test('is told at once after half a second, and is gone when its handler has thrown', async () => {
    const { queue, worker, timing, reasons, heard, engine } = setUp();
    await queue.enqueueMany(named('a', 'b'));
    worker.start();
    await timing.advance(1_000);
    await queue.cancel('a', { reason: 'superseded' });
    await timing.settled();
    expect(reasons).toEqual([expect.any(TaskCancelledError)]);
    expect(reasons).toMatchObject([{ reason: 'TASK_CANCELLED', cancelReason: 'superseded' }]);
    expect(heard).toEqual(['cancelled a: superseded']);
    expect(await engine.pids('g#q')).toEqual(['b']);
    expect(await queue.waitForEnd('a')).toMatchObject({ outcome: 'cancelled', cancelReason: 'superseded' });
    await queue.cancel('b');
    await timing.advance(100);
    expect(heard).toEqual(['cancelled a: superseded', 'cancelled b: ']);
    await worker.stop();
    expect((await engine.figures()).taskWaits).toBe(0);
  });

  test('is told at once among tasks whose PIDs fill more than one request', async () => {
    const { queue, client, timing, transport } = setUp();
    const pids = Array.from({ length: 700 }, (_, at) => Buffer.alloc(4_000, at.toString().padStart(4, '0')));
    await queue.enqueueMany(pids.map((pid) => ({ data: 'x', pid })));
    const reasons: unknown[] = [];
    const handler = ({ signal }: LeasedTask<string>): Promise<void> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          resolve();
        });
      });
    const worker = client.worker(queue, handler, { concurrency: pids.length });
    worker.start();
    await timing.advance(1_000);
    const sizes = transport.arrived.waitForTasks.map(
      (request) => WaitForTasksRequest.encode(request).finish().byteLength,
    );
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThan(limits.requestBytes / 2 + 100);
    await queue.cancel(pids.at(-1) ?? Buffer.alloc(0));
    await timing.settled();
    expect(reasons).toEqual([expect.any(TaskCancelledError)]);
    const stopped = worker.stop({ timeout: 0 });
    await timing.advance(1_000);
    await stopped;
  });

  test('is told at once among more than one request can wait for', async () => {
    const { queue, client, timing, transport } = setUp();
    await queue.enqueueMany(Array.from({ length: 1_500 }, (_, at) => ({ pid: String(at), data: '' })));
    const handler = ({ signal }: LeasedTask<string>): Promise<void> =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    const worker = client.worker(queue, handler, { concurrency: 1_500, leaseDuration: '30s', prefetch: 0 });
    worker.start();
    await timing.advance(1_000);
    expect(transport.arrived.waitForTasks.map(({ tasks }) => tasks.length)).toEqual([1_000, 500]);
    const stopping = worker.stop({ timeout: 1 });
    await timing.advance(5_000);
    await stopping;
  });

  test('is told by a renewal if the node cannot wait', async () => {
    const { queue, worker, timing, reasons, transport } = setUp({ leaseDuration: '3s' });
    await queue.enqueue('a', { pid: 'a' });
    transport.faults.waitForTasks.push({ when: 'before', error: makeError('no', { reason: 'UNIMPLEMENTED' }) });
    worker.start();
    await timing.advance(600);
    await queue.cancel('a', { reason: 'late' });
    expect(reasons).toEqual([]);
    await timing.advance(1_000);
    expect(reasons).toMatchObject([{ cancelReason: 'late' }]);
    await worker.stop();
  });

  test('is told after a lost connection', async () => {
    const { queue, worker, timing, reasons, transport } = setUp();
    await queue.enqueue('a', { pid: 'a' });
    transport.faults.waitForTasks.push({ when: 'before', error: connectionLost() });
    worker.start();
    await timing.advance(5_000);
    await queue.cancel('a');
    await timing.settled();
    expect(reasons).toHaveLength(1);
    await worker.stop();
  });

  test('is told after a request without an answer', async () => {
    const { queue, worker, timing, reasons, transport } = setUp();
    await queue.enqueue('a', { pid: 'a' });
    const error = makeError('no answer', { reason: 'DEADLINE_EXCEEDED' });
    transport.faults.waitForTasks.push({ when: 'before', error });
    worker.start();
    await timing.advance(5_000);
    await queue.cancel('a');
    await timing.settled();
    expect(reasons).toHaveLength(1);
    await worker.stop();
  });

  test('is completed if its handler returns nevertheless', async () => {
    const { client, queue, timing, heard, hooks, engine } = workerSetUp();
    const { handler, finish } = gatedHandler();
    await queue.enqueue('a', { pid: 'a' });
    const worker = client.worker(queue, handler, hooks);
    worker.start();
    await timing.advance(1_000);
    await queue.cancel('a');
    finish('a');
    await timing.settled();
    expect([heard, await engine.pids('g#q')]).toEqual([['complete a'], []]);
    await worker.stop();
  });

  test('is told by its own renewal, also before half a second', async () => {
    const { client, queue, hooks, timing } = workerSetUp();
    await queue.enqueue('a', { pid: 'a' });
    const seen: unknown[] = [];
    const worker = client.worker(
      queue,
      async (task) => {
        await queue.cancel('a', { reason: 'why' });
        await task.reportProgress('half');
        seen.push(task.signal.aborted, task.signal.reason);
      },
      hooks,
    );
    worker.start();
    await timing.settled();
    await worker.stop();
    expect(seen).toMatchObject([true, { cancelReason: 'why' }]);
  });
});

describe('the request that watches running tasks', () => {
  test('is one for each group, and is not made for tasks that end soon', async () => {
    const { client, queue, timing, transport, engine, hooks } = workerSetUp();
    const { handler, finish } = gatedHandler();
    const other = client.queue<string>('h#q');
    await queue.enqueueMany(named('a', 'b'));
    await other.enqueueMany(named('c'));
    const worker = client.worker([queue, other], handler, { ...hooks, concurrency: 10 });
    worker.start();
    await timing.advance(400);
    expect((await engine.figures()).taskWaits).toBe(0);
    await timing.advance(700);
    const asked = transport.waiting.waitForTasks.map(({ tasks }) => tasks.map(({ pid }) => pidText(pid)));
    expect(asked).toEqual([['a', 'b'], ['c']]);
    finish('a');
    finish('c');
    await timing.settled();
    // Many completions soon after each other make one request.
    expect((await engine.figures()).taskWaits).toBe(0);
    await timing.advance(100);
    expect(transport.waiting.waitForTasks.map(({ tasks }) => tasks.length)).toEqual([1]);
    finish('b');
    await timing.settled();
    expect((await engine.figures()).taskWaits).toBe(0);
    await worker.stop();
  });

  test('tells a worker at once that its lease is lost, or its task removed', async () => {
    const { queue, client, worker, timing, reasons, heard } = setUp();
    await queue.enqueueMany(named('a', 'b'));
    worker.start();
    await timing.advance(1_000);
    await client.update().dequeue(queue, 'b').commit();
    await timing.settled();
    expect(reasons).toMatchObject([{ reason: 'TASK_NOT_FOUND' }]);
    await queue.resetLeases();
    await timing.advance(100);
    expect(reasons).toMatchObject([{ reason: 'TASK_NOT_FOUND' }, { reason: 'LEASE_LOST' }]);
    expect(heard.filter((line) => line.startsWith('lost'))).toEqual(['lost b: TASK_NOT_FOUND', 'lost a: LEASE_LOST']);
    // It has leased `a` again.
    const stopped = worker.stop({ timeout: 0 });
    await timing.advance(5_000);
    await stopped;
  });
});
