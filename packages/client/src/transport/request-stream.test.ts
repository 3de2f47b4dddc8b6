import {
  type CallPipeListener,
  EnqueueResult,
  encodeToBuffer,
  NOTHING_CHANGED,
  StreamRequest,
  StreamResponse,
  type StreamResult,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { emptyRequest } from '../calls/update-request.ts';
import { ManualTiming, settled } from '../testing/manual-timing.ts';
import {
  CancelledError,
  DeadlineExceededError,
  InvalidRequestError,
  LeaseLostError,
  makeError,
  type TaskMasterError,
  UnavailableError,
} from '../values/errors.ts';
import { RequestStream } from './request-stream.ts';

type Sent = { readonly ids: number[]; readonly cancels: number[]; readonly updates: UpdateTasksRequest[] };

/** A stream whose other end the test plays. */
function setUp({ maxCallsInFlight = 100 } = {}) {
  const timing = new ManualTiming();
  const sent: Sent[] = [];
  const listeners: CallPipeListener<TaskMasterError>[] = [];
  const broken: string[] = [];
  const state = { takes: true, isReadable: true, closed: 0 };
  const stream = new RequestStream({
    timing,
    onSent: () => {},
    maxCallsInFlight,
    onFailure: ({ reason }) => broken.push(reason),
    open(listener) {
      if (!state.isReadable) throw makeError('the token cannot be read', { reason: 'UNAUTHENTICATED' });
      listeners.push(listener);
      return {
        write(message) {
          const { calls } = StreamRequest.decode(message);
          const cancels = calls.filter(({ call }) => call?.$case === 'cancel').map(({ id }) => id);
          const ids = calls.filter(({ call }) => call?.$case !== 'cancel').map(({ id }) => id);
          const updates = calls.flatMap(({ call }) => (call?.$case === 'update' ? [call.value] : []));
          sent.push({ ids, cancels, updates });
          return state.takes;
        },
        end: () => {},
        abort: () => state.closed++,
      };
    },
  });
  const update = (fields: Partial<UpdateTasksRequest> = {}, timeoutMs?: number, signal?: AbortSignal) => {
    const request = { ...emptyRequest(), ...fields };
    return stream.call({ $case: 'update', value: request }, 100, { timeoutMs, signal });
  };
  const lease = (waitMs: number, options: { signal?: AbortSignal; timeoutMs?: number } = {}) => {
    const request = { queues: ['q'], maxTasks: 1, leaseDurationMs: 1_000, waitMs, workerLabel: '', maxBytes: 0 };
    const value = { ...request, maxPid: Buffer.alloc(0), anyOrder: false, patterns: [], maxMoreQueues: 0 };
    return stream.call({ $case: 'lease', value }, 100, options);
  };
  const answer = (...results: StreamResult[]): void =>
    listeners.at(-1)?.onMessage(encodeToBuffer(StreamResponse, { results }));
  return { timing, stream, sent, listeners, broken, state, update, lease, answer };
}

const done = (id: number, pid = ''): StreamResult => {
  const enqueued = [
    { pid: Buffer.from(pid), result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false, published: undefined },
  ];
  return { id, result: { $case: 'update', value: { enqueued, renewed: [], released: [], refused: [] } } };
};
const refused = (id: number, reason: string, code: number, metadata = {}): StreamResult => {
  const value = { code, reason, message: reason, metadata, retryDelayMs: 0, items: [] };
  return { id, result: { $case: 'error', value } };
};
const leased = (id: number, ...pids: string[]): StreamResult => {
  const instants = { leaseUntilUnixMs: 0, enqueuedUnixMs: 0 };
  const rest = {
    queue: 'q',
    data: Buffer.alloc(0),
    leaseToken: 1,
    attempt: 1,
    maxAttempts: undefined,
    leaseDurationMs: 0,
    progress: '',
    headers: {},
    key: '',
    timeLimitMs: 0,
    limitKey: '',
    patternId: 0,
  };
  const tasks = pids.map((pid) => ({ ...rest, ...instants, pid: Buffer.from(pid) }));
  return { id, result: { $case: 'lease', value: { tasks, moreQueues: [] } } };
};
test('calls of one turn go out in one message, and answers come in any order', async () => {
  const { update, lease, sent, answer } = setUp();
  const first = update();
  const second = lease(0);
  const third = update();
  await settled();
  expect(sent.map(({ ids }) => ids)).toEqual([[1, 2, 3]]);
  answer(refused(3, 'LEASE_LOST', 9), leased(2, 'a'));
  answer(done(1, 'x'));
  await expect(third).rejects.toBeInstanceOf(LeaseLostError);
  expect((await second).tasks).toHaveLength(1);
  expect((await first).enqueued).toHaveLength(1);
});

test('a call that cannot be encoded does not fail the other calls of its message', async () => {
  const { update, sent, answer } = setUp();
  const good = update();
  const bad = update({ dequeue: [{ queue: 'q', pid: Buffer.from('a'), leaseToken: 1.5, requeue: false }] });
  await expect(bad).rejects.toBeInstanceOf(InvalidRequestError);
  await settled();
  expect(sent.map(({ ids }) => ids)).toEqual([[1]]);
  answer(done(1));
  await good;
});

test('a stream that cannot be opened fails the call, and the next call tries again', async () => {
  const { update, state, sent } = setUp();
  state.isReadable = false;
  await expect(update()).rejects.toMatchObject({ name: 'UnauthenticatedError', maybeApplied: false });
  state.isReadable = true;
  update().catch(() => {});
  await settled();
  expect(sent.map(({ ids }) => ids)).toEqual([[1]]);
});

test('an answer that cannot be read breaks the stream, and its calls can be repeated', async () => {
  const { update, listeners, broken } = setUp();
  const call = expect(update()).rejects.toMatchObject({ reason: 'UNAVAILABLE', retryable: true, maybeApplied: true });
  await settled();
  listeners[0]?.onMessage(Buffer.from([0x0a, 0x7f]));
  await call;
  expect(broken).toEqual(['UNAVAILABLE']);
});

describe('a deadline', () => {
  test('rejects the call, which may have been carried out if it was sent', async () => {
    const { update, timing } = setUp();
    const call = expect(update({}, 1_000)).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED', maybeApplied: true });
    await timing.advance(1_100);
    await call;
  });

  test('of a lease begins after its waiting time, and cancels the lease at the node', async () => {
    const { lease, timing, sent, answer } = setUp();
    const call = lease(5_000, { timeoutMs: 1_000 });
    call.catch(() => {});
    await timing.advance(5_900);
    expect(sent).toHaveLength(1);
    await timing.advance(200);
    expect(sent[1]).toMatchObject({ ids: [], cancels: [1] });
    answer(refused(1, 'CANCELLED', 1, NOTHING_CHANGED));
    // The node has said that nothing was leased.
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DeadlineExceededError);
    expect(error).toMatchObject({ maybeApplied: false });
  });
});

describe('a cancelled lease', () => {
  test('is rejected when the node confirms it', async () => {
    const { lease, sent, answer } = setUp();
    const giveUp = new AbortController();
    const call = lease(60_000, { signal: giveUp.signal });
    await settled();
    giveUp.abort();
    await settled();
    expect(sent[1]?.cancels).toEqual([1]);
    answer(refused(1, 'CANCELLED', 1));
    await expect(call).rejects.toBeInstanceOf(CancelledError);
  });

  test('still resolves if it was served before, because the caller must release the tasks', async () => {
    const { lease, answer } = setUp();
    const giveUp = new AbortController();
    const call = lease(60_000, { signal: giveUp.signal });
    await settled();
    giveUp.abort();
    answer(leased(1, 'a'));
    expect((await call).tasks).toHaveLength(1);
  });

  test('does not wait long for a silent node, and gives back the tasks of a late answer', async () => {
    const { lease, timing, sent, answer } = setUp();
    const giveUp = new AbortController();
    const call = expect(lease(60_000, { signal: giveUp.signal })).rejects.toBeInstanceOf(CancelledError);
    await settled();
    giveUp.abort();
    await timing.advance(1_100);
    await call;
    answer(leased(1, 'a', 'b'));
    await settled();
    expect(sent.at(-1)?.ids).toEqual([2, 3]);
    const released = sent.flatMap(({ updates }) => updates.flatMap(({ release }) => release));
    expect(released.map(({ pid, leaseToken, refundAttempt }) => [`${pid}`, leaseToken, refundAttempt])).toEqual([
      ['a', 1, true],
      ['b', 1, true],
    ]);
  });

  test('before it was sent is never sent', async () => {
    const { lease, sent } = setUp();
    const giveUp = new AbortController();
    const call = lease(60_000, { signal: giveUp.signal });
    giveUp.abort();
    await expect(call).rejects.toMatchObject({ reason: 'CANCELLED', maybeApplied: false });
    await settled();
    expect(sent).toEqual([]);
  });
});

describe('when the stream breaks', () => {
  const broke = makeError('socket closed', { reason: 'UNAVAILABLE', code: 14, retryable: true, maybeApplied: true });

  test('its calls can be repeated; sent calls may have been carried out', async () => {
    const { update, listeners, broken } = setUp({ maxCallsInFlight: 1 });
    const sent = expect(update()).rejects.toMatchObject({ retryable: true, maybeApplied: true });
    const unsent = expect(update()).rejects.toMatchObject({ retryable: true, maybeApplied: false });
    await settled();
    listeners[0]?.onEnd(broke);
    await Promise.all([sent, unsent]);
    expect(broken).toEqual(['UNAVAILABLE']);
  });

  test('the next call opens another one, and late answers of the old one are ignored', async () => {
    const { update, listeners, answer, stream } = setUp();
    const lost = expect(update()).rejects.toBeInstanceOf(UnavailableError);
    await settled();
    listeners[0]?.onEnd(broke);
    await lost;
    const call = update();
    await settled();
    expect(listeners).toHaveLength(2);
    listeners[0]?.onMessage(encodeToBuffer(StreamResponse, { results: [done(1)] }));
    expect(stream.isIdle).toBe(false);
    answer(done(1));
    await call;
  });

  test('by accident, its calls can be repeated, although the status alone would not allow it', async () => {
    const { update, listeners } = setUp();
    const call = expect(update()).rejects.toMatchObject({ name: 'UnavailableError', retryable: true });
    await settled();
    listeners[0]?.onEnd(makeError('RST_STREAM', { reason: 'INTERNAL' }));
    await call;
  });

  test('because the node refuses access, repeating does not help', async () => {
    const { update, listeners } = setUp();
    const call = expect(update()).rejects.toMatchObject({ reason: 'UNAUTHENTICATED', retryable: false });
    await settled();
    listeners[0]?.onEnd(makeError('who are you', { reason: 'UNAUTHENTICATED', code: 16 }));
    await call;
  });
});

test('closing rejects unanswered and later calls', async () => {
  const { update, stream, timing, state } = setUp();
  const sent = expect(update({}, 10_000)).rejects.toMatchObject({ reason: 'CANCELLED', maybeApplied: true });
  await settled();
  stream.close();
  await sent;
  await expect(update()).rejects.toMatchObject({ reason: 'CANCELLED', maybeApplied: false });
  expect(state.closed).toBe(1);
  expect(timing.timers).toBe(0);
});
