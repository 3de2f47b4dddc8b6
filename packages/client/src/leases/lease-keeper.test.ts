import type { UpdateTasksRequest } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { connect } from '../api/connect.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { startServerThread } from '../testing/server-thread.ts';
import { systemTiming } from '../transport/timing.ts';
import type { Reachable, Transport } from '../transport/transport.ts';
import { pidText } from '../values/pid.ts';
import { Lease } from './lease.ts';
import { LeaseKeeper } from './lease-keeper.ts';

const patience = { timeout: 20_000 };

/** Nothing of this thread runs meanwhile. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe('a handler that blocks the event loop', () => {
  test('keeps its lease, and learns of the renewals before the timer fires', async () => {
    await using server = startServerThread();
    await vi.waitUntil(() => server.port !== 0, patience);
    await using client = await connect(`127.0.0.1:${server.port}`);
    const queue = client.queue<string>('q');
    const warmUp = client.queue<string>('warm-up');
    await warmUp.enqueue('a');
    // The thread takes a while to start, longer on a busy machine. The test begins after that.
    await using starter = client.worker(
      warmUp,
      () => vi.waitUntil(() => server.renewals > 0, patience).then(() => {}),
      {
        leaseDuration: '4s',
      },
    );
    starter.start();
    await vi.waitUntil(() => server.renewals > 0, patience);

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
    expect(server.renewals).toBeGreaterThan(3);
  });
});

test.each([
  // A thread without endpoints fails as it starts.
  ['has died', { endpoints: [], tls: undefined }],
  // Node.js refuses a path that is not absolute, as it refuses every thread without --allow-worker.
  ['cannot start', { endpoints: ['127.0.0.1:1'], tls: undefined, renewalThread: 'no-thread.js' }],
] satisfies [string, Reachable][])(
  'if the thread %s, this thread renews the leases, and warns once',
  async (_what, reachableFrom) => {
    const warnings: unknown[] = [];
    const onWarning = ({ name, ...warning }: Error & { code?: string }): unknown => warnings.push([name, warning.code]);
    process.on('warning', onWarning);
    const pids: string[] = [];
    const transport: Pick<Transport, 'unary' | 'reachableFrom'> = {
      reachableFrom,
      async unary<Q extends object, R>(_method: unknown, request: Q): Promise<R> {
        const { renew } = request as unknown as UpdateTasksRequest;
        pids.push(...renew.map(({ pid }) => pidText(pid)));
        return { renewed: renew.map(() => ({})) } as R;
      },
    };
    const keeper = new LeaseKeeper({ transport: transport as Transport, timing: systemTiming, random: Math.random });
    const lease = (pid: string): Lease => {
      const terms = {
        queue: 'q',
        pid: Buffer.from(pid),
        token: 1,
        leaseDurationMs: 3_000,
        timeLimitMs: undefined,
        from: systemTiming.now() - 2_000,
      };
      return new Lease(terms, systemTiming, keeper.catchUp);
    };
    try {
      keeper.keep([lease('a')], 60_000);
      keeper.keep([lease('b')], 60_000);
      await vi.waitUntil(() => pids.includes('a') && pids.includes('b'), patience);
      expect(warnings).toEqual([['TaskMasterWarning', 'TASKMASTER_NO_RENEWAL_THREAD']]);
    } finally {
      process.off('warning', onWarning);
      await keeper.close();
    }
  },
);
