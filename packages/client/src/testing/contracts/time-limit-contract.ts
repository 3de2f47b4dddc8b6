import { EnqueueMode, methods, PeekKind } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { bytes, enqueue, lease, QUEUE, update } from './transport-requests.ts';
import type { TransportWorld } from './transport-world.ts';

const HOUR_MS = 3_600_000;
const LIMIT_MS = 60_000;

/** The part of the transport contract about time limits. */
export function timeLimitContract(start: () => Promise<TransportWorld>): void {
  test('a lease and its renewals end at the time limit of the task, which is shown', async () => {
    await using world = await start();
    const { transport } = world;
    const pid = bytes('a');
    await transport.unary(methods.updateTasks, enqueue('a', { timeLimitMs: LIMIT_MS }));
    await transport.unary(
      methods.updateTasks,
      enqueue('a', { timeLimitMs: 1, mode: EnqueueMode.ENQUEUE_MODE_REPLACE }),
    );
    const { tasks } = await transport.unary(methods.leaseTasks, { ...lease(), leaseDurationMs: HOUR_MS });
    expect(tasks).toMatchObject([{ timeLimitMs: LIMIT_MS }]);
    const [task] = tasks;
    const renew = [
      { queue: QUEUE, pid, leaseToken: task?.leaseToken ?? 0, leaseDurationMs: HOUR_MS, progress: undefined },
    ];
    const { renewed } = await transport.unary(methods.updateTasks, update({ renew }));
    expect(renewed).toMatchObject([{ leaseUntilUnixMs: task?.leaseUntilUnixMs }]);
    const shown = await transport.unary(methods.getTasks, { queue: QUEUE, pids: [pid], keys: [], includeData: false });
    expect(shown.tasks).toMatchObject([{ timeLimitMs: LIMIT_MS }]);
    const peek = { queue: QUEUE, kind: PeekKind.PEEK_KIND_LEASED, limit: 1, includeData: false };
    const peeked = await transport.unary(methods.peekTasks, { ...peek, afterPid: bytes('') });
    expect(peeked.tasks).toMatchObject([{ timeLimitMs: LIMIT_MS }]);
  });
}
