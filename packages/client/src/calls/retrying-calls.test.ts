import { describe, expect, test } from 'vitest';
import { connectionLost, FakeTransport, overloaded } from '../testing/fake-transport.ts';
import { ManualTiming } from '../testing/manual-timing.ts';
import { DeadlineExceededError, makeError } from '../values/errors.ts';
import { clientSettings, type RetryEvent } from '../values/options.ts';
import { RetryingCalls } from './retrying-calls.ts';
import { emptyRequest } from './update-request.ts';

function setUp() {
  const timing = new ManualTiming();
  const transport = new FakeTransport(timing);
  const events: RetryEvent[] = [];
  const settings = clientSettings({ onCallRetried: (event) => events.push(event) });
  const calls = new RetryingCalls({ transport, settings, timing, random: () => 0.5 });
  return { timing, transport, events, calls };
}

const enqueue = {
  queue: 'q',
  pid: Buffer.from('a'),
  data: Buffer.from('1'),
  mode: 1 as const,
  delayMs: 0,
  runAtUnixMs: 0,
  headers: {},
  key: '',
  timeLimitMs: 0,
  topic: '',
  retry: undefined,
};
const withId = { ...emptyRequest(), enqueue: [enqueue], requestId: Buffer.from('id') };

test('an update whose reply was lost is repeated, and the node gives its first outcome again', async () => {
  const { timing, transport, events, calls } = setUp();
  transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
  const call = calls.update(withId, {});
  await timing.advance(100);
  expect(await call).toMatchObject({ enqueued: [{ result: 1 }] });
  expect(transport.engine.updates).toHaveLength(2);
  expect(events).toMatchObject([{ operation: 'updateTasks', attempt: 1, afterMs: 25 }]);
});

test('an update without a request id is not repeated when it may have been applied', async () => {
  const { transport, calls } = setUp();
  transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
  await expect(calls.update({ ...emptyRequest(), enqueue: [enqueue] }, {})).rejects.toMatchObject({
    maybeApplied: true,
  });
});

test('after a lost answer it is unknown whether the update was applied, whatever refuses the repetitions', async () => {
  const { timing, transport, calls } = setUp();
  transport.faults.updateTasks.push(
    { when: 'after', error: connectionLost() },
    ...Array.from({ length: 9 }, () => ({ when: 'before', error: overloaded() }) as const),
  );
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason: 'OVERLOADED', maybeApplied: true });
  await timing.advance(10_000);
  await call;
});

test.each([
  ['TASK_NOT_FOUND', true],
  ['EMPTY_REQUEST', false],
])('after a refused repetition (%s) the lost attempt may still be applied: %s', async (reason, maybe) => {
  const { timing, transport, calls } = setUp();
  transport.faults.updateTasks.push(
    { when: 'late', error: connectionLost() },
    { when: 'before', error: makeError('no', { reason }) },
  );
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason, maybeApplied: maybe });
  await timing.advance(1_000);
  await call;
});

test('repetitions share the deadline of their call', async () => {
  const { timing, transport, calls } = setUp();
  transport.faults.updateTasks.push({ when: 'before', error: overloaded(3_000) });
  const call = calls.update(withId, { timeout: '5s' });
  await timing.advance(4_000);
  await call;
  expect(transport.updateOptions.map(({ timeoutMs }) => timeoutMs)).toEqual([5_000, 1_975]);
});

test('the caller gets the last error', async () => {
  const { timing, transport, calls } = setUp();
  transport.faults.updateTasks.push(
    ...Array.from({ length: 10 }, () => ({ when: 'before', error: overloaded() }) as const),
  );
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason: 'OVERLOADED' });
  await timing.advance(10_000);
  await call;
});

describe('a call whose deadline passes after refusals', () => {
  const starting = makeError('waits for b', { reason: 'STARTING', retryDelayMs: 500 });
  const late = new DeadlineExceededError('no answer came in time', { reason: 'DEADLINE_EXCEEDED', maybeApplied: true });

  test('names the last refusal, and says that the last attempt may have been applied', async () => {
    const { timing, transport, calls } = setUp();
    transport.faults.updateTasks.push({ when: 'before', error: starting }, { when: 'before', error: starting });
    transport.faults.updateTasks.push({ when: 'after', error: late });
    const call = expect(calls.update(withId, {})).rejects.toMatchObject({
      reason: 'STARTING',
      message: 'waits for b; gave up after 1.1 s',
      maybeApplied: true,
      retryable: true,
      name: 'UnavailableError',
      cause: late,
      gaveUpAfterMs: 1_075,
    });
    await timing.advance(2_000);
    await call;
  });

  test('has changed nothing if every attempt was refused', async () => {
    const { timing, transport, calls } = setUp();
    for (let i = 0; i < 20; i++) transport.faults.updateTasks.push({ when: 'before', error: starting });
    const call = expect(calls.update(withId, { timeout: '3s' })).rejects.toMatchObject({
      reason: 'STARTING',
      message: 'waits for b; gave up after 2.4 s',
      maybeApplied: false,
    });
    await timing.advance(3_000);
    await call;
  });

  test('has changed nothing if it is a read', async () => {
    const { calls } = setUp();
    const looking = calls.run('peekTasks', 'read', {}, () => Promise.reject(late));
    await expect(looking).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED', maybeApplied: false });
  });
});

test('a call has its own number of attempts', async () => {
  const { transport, calls } = setUp();
  transport.faults.updateTasks.push({ when: 'before', error: overloaded() });
  await expect(calls.update(withId, { maxAttempts: 1 })).rejects.toMatchObject({ reason: 'OVERLOADED' });
  for (const maxAttempts of [0, 1.5, '2' as never]) {
    await expect(calls.update(withId, { maxAttempts })).rejects.toBeInstanceOf(TypeError);
  }
  expect(transport.updateOptions).toHaveLength(1);
});

test('a repeated lease waits for the rest of its waiting time', async () => {
  const { timing, transport, calls } = setUp();
  transport.faults.leaseTasks.push({ when: 'before', error: overloaded(4_000) });
  const request = { queues: ['q'], maxTasks: 1, leaseDurationMs: 1_000, waitMs: 10_000, workerLabel: '', maxBytes: 0 };
  const call = calls.lease(
    { ...request, maxPid: Buffer.alloc(0), anyOrder: false, patterns: [], maxMoreQueues: 0 },
    {},
  );
  await timing.advance(5_000);
  expect(transport.engine.leases.map(({ waitMs }) => waitMs)).toEqual([5_975]);
  await timing.advance(6_000);
  expect(await call).toEqual({ tasks: [], moreQueues: [] });
});

describe('a signal', () => {
  test('aborted before sends nothing', async () => {
    const { transport, calls } = setUp();
    await expect(calls.update(withId, { signal: AbortSignal.abort() })).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(transport.engine.updates).toEqual([]);
  });

  test('aborted while a repetition waits: the error says whether the call may have taken effect', async () => {
    const { timing, transport, calls } = setUp();
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    const giveUp = new AbortController();
    const call = expect(calls.update(withId, { signal: giveUp.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
      maybeApplied: true,
    });
    await timing.advance(10);
    giveUp.abort();
    await call;
    expect(timing.timers).toBe(0);
  });
});

test('other errors become errors of this library', async () => {
  const { transport, calls } = setUp();
  transport.listQueues = () => Promise.reject(new RangeError('bug'));
  const call = calls.run('listQueues', 'read', {}, () =>
    transport.listQueues({ filter: undefined, limit: 0, pageToken: '' }),
  );
  await expect(call).rejects.toMatchObject({ name: 'TaskMasterError', reason: 'INTERNAL', message: 'bug' });
});
