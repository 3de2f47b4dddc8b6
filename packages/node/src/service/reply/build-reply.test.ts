import {
  type Instant,
  type LeasedTask,
  type LeaseToken,
  NO_LINKS,
  type Pid,
  type TaskState,
  withHeaders,
} from '@taskmaster/engine/domain';
import { taskStates } from '@taskmaster/engine/testing';
import { encodeToBuffer, LeaseTasksResponse, limits, TaskInfo } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fittingTasks, leaseReply, taskInfo, taskInfoBytes } from './build-reply.ts';

const leased: LeasedTask = {
  queue: { group: 'shop', name: 'mail' },
  pid: 'a' as Pid,
  data: Buffer.from('data'),
  token: 7 as LeaseToken,
  until: 2000 as Instant,
  attempt: 1,
  enqueuedAt: 1000 as Instant,
  maxAttempts: 20,
  leaseDurationMs: undefined,
  timeLimitMs: 0,
  history: undefined,
  headerBytes: 0,
};

test('a leased task shows how many attempts it may have and how long its lease lasts, unless both are the defaults', () => {
  const { tasks } = leaseReply([leased, { ...leased, maxAttempts: 0 }, { ...leased, leaseDurationMs: 1000 }]);
  expect(tasks.map(({ maxAttempts, leaseDurationMs }) => [maxAttempts, leaseDurationMs])).toEqual([
    [undefined, 0],
    [0, 0],
    [undefined, 1000],
  ]);
});

/** As many headers as possible, which take most beside their keys and values. */
const mostHeaders = Object.fromEntries(
  Array.from({ length: limits.headers }, (_, at) => [`${at}`.padEnd(64, 'k'), 'v'.repeat(64)]),
);

test('a leased task uses no more of a reply than is counted for it', () => {
  const child = { queue: 'c'.repeat(512), pid: 'p'.repeat(4096) as Pid, end: 'completed' as const };
  const end = { id: '', child, data: Buffer.from('result') };
  const endBytes = child.queue.length + child.pid.length + end.data.length;
  const largest: LeasedTask = {
    ...leased,
    queue: { group: 'g'.repeat(512), name: 'n'.repeat(512) },
    pid: 'p'.repeat(4096) as Pid,
    token: Number.MAX_SAFE_INTEGER as LeaseToken,
    until: Number.MAX_SAFE_INTEGER as Instant,
    enqueuedAt: Number.MAX_SAFE_INTEGER as Instant,
    attempt: 2 ** 31 - 1,
    maxAttempts: 1_000_000,
    leaseDurationMs: limits.leaseDurationMs,
    history: {
      key: 'k'.repeat(limits.keyBytes),
      given: {
        timeLimitMs: limits.timeLimitMs,
        limitKey: 'k'.repeat(limits.limitKeyBytes),
        kind: 'k'.repeat(limits.kindBytes),
      },
      startBy: Number.MAX_SAFE_INTEGER as Instant,
      waits: undefined,
      links: { ...NO_LINKS, orderKey: 'o'.repeat(limits.orderKeyBytes) },
      failures: [],
      origin: undefined,
      checkpoint: new Uint8Array(limits.checkpointBytes),
      interruptions: limits.interruptions,
      suspicion: limits.leaseTasks,
      rerun: false,
      progress: { at: 0 as Instant, text: '€'.repeat(85) },
      cancelled: undefined,
    },
    timeLimitMs: limits.timeLimitMs,
    unbegun: limits.leaseTasks,
    signals: { kind: 'all', box: { kept: [end, end, end], keptCount: 3, dropped: 10_000, bytes: 3 * endBytes } },
    ...withHeaders(mostHeaders, Buffer.from('data')),
  };
  const bytes = encodeToBuffer(LeaseTasksResponse, leaseReply([largest])).length;
  expect(bytes).toBeLessThanOrEqual(fittingTasks([largest], Number.MAX_SAFE_INTEGER).bytes);
});

test('a leased task and a shown task have the headers and the data of the payload', () => {
  const headers = { tenant: 'acme', 'content-type': 'text/plain', ünsaid: '' };
  const payload = withHeaders(headers, Buffer.from('data'));
  const [task] = leaseReply([{ ...leased, ...payload }]).tasks;
  expect({ ...task?.headers }).toEqual(headers);
  expect(Buffer.from(task?.data ?? []).toString()).toBe('data');
  const state = { ...fc.sample(taskStates, 1)[0], headerBytes: payload.headerBytes } as TaskState;
  const view = { queue: leased.queue, pid: leased.pid, state, data: payload.data };
  expect(taskInfo(view, true)).toMatchObject({ headers, data: Buffer.from('data') });
  expect(taskInfo(view, false)).toMatchObject({ headers: {}, data: Buffer.alloc(0) });
});

test('a shown task uses no more of a reply than is counted for it, whatever it keeps of its past', () => {
  fc.assert(
    fc.property(taskStates, fc.boolean(), (state, includeData) => {
      const { data, headerBytes } = withHeaders(state.headerBytes > 0 ? mostHeaders : {}, Buffer.alloc(5));
      const shown = { ...state, dataBytes: data.length, headerBytes, attempts: state.attempts % 2 ** 31 };
      const view = { queue: { group: 'shop', name: 'mail' }, pid: 'a' as Pid, state: shown, data };
      const message = encodeToBuffer(TaskInfo, taskInfo(view, includeData));
      expect(message.length).toBeLessThanOrEqual(taskInfoBytes(view, includeData));
    }),
  );
});

test.each([
  ['is shown', false, 'too late'],
  ['is not shown once an enqueue has taken it back', true, undefined],
])('a cancellation %s', (_how, rerun, cancelReason) => {
  const history = {
    key: undefined,
    given: undefined,
    startBy: undefined,
    waits: undefined,
    links: undefined,
    failures: [],
    origin: undefined,
    progress: undefined,
    checkpoint: undefined,
    interruptions: 0,
    suspicion: 0,
    rerun,
    cancelled: { at: 5 as Instant, reason: 'too late' },
  };
  const state = { ...fc.sample(taskStates, 1)[0], history } as TaskState;
  const info = taskInfo({ queue: leased.queue, pid: leased.pid, state, data: undefined }, false);
  expect([info.cancelReason, info.cancelledUnixMs]).toEqual([cancelReason, rerun ? 0 : 5]);
});
