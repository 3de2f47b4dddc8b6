import { describe, expect, test } from 'vitest';
import { connectionLost, overloaded } from '../testing/faults.ts';
import { ManualTiming } from '../testing/manual-timing.ts';
import type { Transport, TransportCallOptions } from '../transport/transport.ts';
import { DeadlineExceededError, makeError, type TaskMasterError } from '../values/errors.ts';
import { clientSettings, type RetryEvent } from '../values/options.ts';
import { RetryingCalls } from './retrying-calls.ts';
import { emptyRequest } from './update-request.ts';

interface Attempt {
  readonly request: object;
  readonly options: TransportCallOptions;
}

/** Calls whose first attempts fail with these errors, one each. Later ones get the reply. */
function setUp(failures: readonly TaskMasterError[] = [], reply: object = {}) {
  const timing = new ManualTiming();
  const sent: Attempt[] = [];
  const transport: Pick<Transport, 'unary'> = {
    async unary<Q extends object, R>(_method: unknown, request: Q, options: TransportCallOptions = {}): Promise<R> {
      sent.push({ request, options });
      const failure = failures[sent.length - 1];
      if (failure !== undefined) throw failure;
      return reply as R;
    },
  };
  const events: RetryEvent[] = [];
  const settings = clientSettings({ onCallRetried: (event) => events.push(event) });
  const calls = new RetryingCalls({ transport: transport as Transport, settings, timing, random: () => 0.5 });
  return { timing, sent, events, calls };
}

const many = (count: number, failure: TaskMasterError): TaskMasterError[] =>
  Array<TaskMasterError>(count).fill(failure);

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
  limitKey: '',
  topic: '',
  retry: undefined,
};
const withId = { ...emptyRequest(), enqueue: [enqueue], requestId: Buffer.from('id') };

test('an update whose reply was lost is repeated as it was', async () => {
  const reply = { enqueued: [] };
  const { timing, sent, events, calls } = setUp([connectionLost()], reply);
  const call = calls.update(withId, {});
  await timing.advance(100);
  expect(await call).toBe(reply);
  expect(sent.map(({ request }) => request)).toEqual([withId, withId]);
  expect(events).toMatchObject([{ operation: 'updateTasks', attempt: 1, afterMs: 25 }]);
});

test('an update without a request id is not repeated when it may have been applied', async () => {
  const { calls } = setUp([connectionLost()]);
  await expect(calls.update({ ...emptyRequest(), enqueue: [enqueue] }, {})).rejects.toMatchObject({
    maybeApplied: true,
  });
});

test('after a lost answer it is unknown whether the update was applied, whatever refuses the repetitions', async () => {
  const { timing, calls } = setUp([connectionLost(), ...many(9, overloaded())]);
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason: 'OVERLOADED', maybeApplied: true });
  await timing.advance(10_000);
  await call;
});

test.each([
  ['TASK_NOT_FOUND', true],
  ['EMPTY_REQUEST', false],
])('after a refused repetition (%s) the lost attempt may still be applied: %s', async (reason, maybe) => {
  const { timing, calls } = setUp([connectionLost(), makeError('no', { reason })]);
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason, maybeApplied: maybe });
  await timing.advance(1_000);
  await call;
});

test('repetitions share the deadline of their call', async () => {
  const { timing, sent, calls } = setUp([overloaded(3_000)]);
  const call = calls.update(withId, { timeout: '5s' });
  await timing.advance(4_000);
  await call;
  expect(sent.map(({ options }) => options.timeoutMs)).toEqual([5_000, 1_975]);
});

test('the caller gets the last error', async () => {
  const { timing, calls } = setUp(many(10, overloaded()));
  const call = expect(calls.update(withId, {})).rejects.toMatchObject({ reason: 'OVERLOADED' });
  await timing.advance(10_000);
  await call;
});

describe('a call whose deadline passes after refusals', () => {
  const starting = makeError('waits for b', { reason: 'STARTING', retryDelayMs: 500 });
  const late = new DeadlineExceededError('no answer came in time', { reason: 'DEADLINE_EXCEEDED', maybeApplied: true });

  test('names the last refusal, and says that the last attempt may have been applied', async () => {
    const { timing, calls } = setUp([starting, starting, late]);
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
    const { timing, calls } = setUp(many(20, starting));
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
  const { sent, calls } = setUp([overloaded()]);
  await expect(calls.update(withId, { maxAttempts: 1 })).rejects.toMatchObject({ reason: 'OVERLOADED' });
  for (const maxAttempts of [0, 1.5, '2' as never]) {
    await expect(calls.update(withId, { maxAttempts })).rejects.toBeInstanceOf(TypeError);
  }
  expect(sent).toHaveLength(1);
});

test('a repeated lease waits for the rest of its waiting time', async () => {
  const reply = { tasks: [], moreQueues: [] };
  const { timing, sent, calls } = setUp([overloaded(4_000)], reply);
  const request = { queues: ['q'], maxTasks: 1, leaseDurationMs: 1_000, waitMs: 10_000, workerLabel: '', maxBytes: 0 };
  const call = calls.lease(
    { ...request, maxPid: Buffer.alloc(0), anyOrder: false, patterns: [], maxMoreQueues: 0 },
    {},
  );
  await timing.advance(5_000);
  expect(sent).toMatchObject([{ request: { waitMs: 10_000 } }, { request: { waitMs: 5_975 } }]);
  expect(await call).toBe(reply);
});

describe('a signal', () => {
  test('aborted before sends nothing', async () => {
    const { sent, calls } = setUp();
    await expect(calls.update(withId, { signal: AbortSignal.abort() })).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(sent).toEqual([]);
  });

  test('aborted while a repetition waits: the error says whether the call may have taken effect', async () => {
    const { timing, calls } = setUp([connectionLost()]);
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
  const { calls } = setUp();
  const call = calls.run('listQueues', 'read', {}, () => Promise.reject(new RangeError('bug')));
  await expect(call).rejects.toMatchObject({ name: 'TaskMasterError', reason: 'INTERNAL', message: 'bug' });
});
