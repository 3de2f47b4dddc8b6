import { connect, type LeasedTask } from '@taskmaster/client';
import { describe, expect, test, vi } from 'vitest';
import { startNodeThread } from './support/node-thread.ts';

/** A thread that loads all sources takes that long on a busy machine. */
const patience = { timeout: 60_000 };

/** Nothing of this thread runs meanwhile. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe('a handler that blocks the event loop', () => {
  test('keeps its lease, and learns of the renewals before the timer fires', async () => {
    await using node = startNodeThread();
    await vi.waitUntil(() => node.port !== 0, patience);
    await using client = await connect(`127.0.0.1:${node.port}`);
    const queue = client.queue<string>('q');
    const warmUp = client.queue<string>('warm-up');
    await warmUp.enqueue('a');
    // The thread takes a while to start, longer on a busy machine. The test begins after that.
    await using starter = client.worker(warmUp, () => vi.waitUntil(() => node.renewals > 0, patience).then(() => {}), {
      leaseDuration: '4s',
    });
    starter.start();
    await vi.waitUntil(() => node.renewals > 0, patience);

    await queue.enqueue('a');
    const completed = Promise.withResolvers<LeasedTask<string>>();
    const seen: { aborted: boolean; endsIn: number }[] = [];
    const handler = async (task: LeasedTask<string>): Promise<void> => {
      const { signal } = task;
      // Blocked after the sockets were polled, the loop brings the timer of the lease's end first, and what the thread has
      // reported only after it.
      await new Promise((resolve) => setImmediate(resolve));
      block(5_000);
      await new Promise((resolve) => setImmediate(resolve));
      seen.push({ aborted: signal.aborted, endsIn: task.leaseUntil.getTime() - Date.now() });
    };
    await using worker = client.worker(queue, handler, { leaseDuration: '2s', onTaskCompleted: completed.resolve });
    worker.start();
    const task = await completed.promise;
    expect(task.attempt).toBe(1);
    expect(seen).toEqual([{ aborted: false, endsIn: expect.any(Number) }]);
    expect(seen[0]?.endsIn).toBeGreaterThan(0);
    expect(node.renewals).toBeGreaterThan(3);
  });
});
