import type { UpdateTasksRequest } from '@taskmaster/proto';
import { expect, test, vi } from 'vitest';
import { systemTiming } from '../transport/timing.ts';
import type { Reachable, Transport } from '../transport/transport.ts';
import { pidText } from '../values/pid.ts';
import { Lease } from './lease.ts';
import { LeaseKeeper } from './lease-keeper.ts';

const patience = { timeout: 20_000 };

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
        attempt: 1,
        headers: {},
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
