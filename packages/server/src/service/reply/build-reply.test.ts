import { encodeToBuffer, LeaseTasksResponse, TaskInfo } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LeasedTask } from '../../domain/commands.ts';
import type { Instant, LeaseToken, Pid } from '../../domain/ids.ts';
import { taskStates } from '../../testing/arbitraries.ts';
import { fittingTasks, leaseReply, taskInfo, taskInfoBytes } from './build-reply.ts';

const retry = { maxAttempts: 5, backoffInitialMs: 1000, backoffMaxMs: 60_000, deadLetterQueue: 'mail.dead' };
const leased: LeasedTask = {
  queue: { group: 'shop', name: 'mail' },
  pid: 'a' as Pid,
  data: Buffer.from('data'),
  token: 7 as LeaseToken,
  until: 2000 as Instant,
  attempt: 1,
  enqueuedAt: 1000 as Instant,
  retry: undefined,
  progress: undefined,
};

test('a leased task shows whether it has a retry policy, and its number of attempts', () => {
  const forEver = { ...retry, maxAttempts: 0 };
  const { tasks } = leaseReply([leased, { ...leased, retry }, { ...leased, retry: forEver }]);
  expect(tasks.map(({ hasRetryPolicy, maxAttempts }) => [hasRetryPolicy, maxAttempts])).toEqual([
    [false, 0],
    [true, 5],
    [true, 0],
  ]);
});

test('a leased task uses no more of a reply than is counted for it', () => {
  const largest: LeasedTask = {
    ...leased,
    queue: { group: 'g'.repeat(512), name: 'n'.repeat(512) },
    pid: 'p'.repeat(4096) as Pid,
    token: Number.MAX_SAFE_INTEGER as LeaseToken,
    until: Number.MAX_SAFE_INTEGER as Instant,
    enqueuedAt: Number.MAX_SAFE_INTEGER as Instant,
    attempt: 2 ** 31 - 1,
    retry: { ...retry, maxAttempts: 1_000_000 },
    progress: '€'.repeat(85),
  };
  const bytes = encodeToBuffer(LeaseTasksResponse, leaseReply([largest])).length;
  expect(bytes).toBeLessThanOrEqual(fittingTasks([largest], Number.MAX_SAFE_INTEGER).bytes);
});

test('a shown task uses no more of a reply than is counted for it, whatever it keeps of its past', () => {
  fc.assert(
    fc.property(taskStates, fc.boolean(), (state, includeData) => {
      const data = Buffer.alloc(5);
      const shown = { ...state, dataBytes: data.length, attempts: state.attempts % 2 ** 31 };
      const view = { queue: { group: 'shop', name: 'mail' }, pid: 'a' as Pid, state: shown, data };
      const message = encodeToBuffer(TaskInfo, taskInfo(view, includeData));
      expect(message.length).toBeLessThanOrEqual(taskInfoBytes(view, includeData));
    }),
  );
});
