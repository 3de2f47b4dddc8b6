import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { limits } from '../limits.ts';
import {
  type CallCodec,
  type CallOutcome,
  type CallPipe,
  type CallPipeListener,
  CallStream,
  type CallStreamParts,
  type StreamEnd,
  type StreamedRequest,
} from './call-stream.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Ids = { readonly calls: number[]; readonly cancels: number[] };

/** The node's end of a stream, which the test plays. */
class FakePipe implements CallPipe {
  readonly messages: Ids[] = [];
  takes = true;
  state: 'open' | 'ended' | 'aborted' = 'open';
  readonly node: CallPipeListener<string>;

  constructor(node: CallPipeListener<string>) {
    this.node = node;
  }

  write(message: Buffer): boolean {
    this.messages.push(JSON.parse(message.toString()) as Ids);
    return this.takes;
  }

  end(): void {
    this.state = 'ended';
  }

  abort(): void {
    this.state = 'aborted';
  }

  /** Answers the calls with these ids. */
  answer(...ids: readonly number[]): void {
    this.node.onMessage(Buffer.from(JSON.stringify(ids.map((id) => ({ id })))));
  }
}

interface Result {
  readonly id: number;
}
type Outcome = CallOutcome<Result, string>;
type Request = StreamedRequest<string>;

const codec: CallCodec<string, Result> = {
  encode(calls) {
    if (calls.some(({ request }) => request === 'unencodable')) throw new Error('a fraction');
    const ids = (cancels: boolean) =>
      calls.filter(({ request }) => (request === undefined) === cancels).map(({ id }) => id);
    return Buffer.from(JSON.stringify({ calls: ids(false), cancels: ids(true) }));
  },
  decode: (message) => JSON.parse(Buffer.from(message).toString()) as Result[],
};

function setUp(options: Partial<CallStreamParts<string, Result, string>> = {}) {
  const turn: (() => void)[] = [];
  const late: Result[] = [];
  const over: StreamEnd<string>[] = [];
  // Those of this stream: what an earlier test file of the process has left may set others.
  const timers = new Set<unknown>();
  const stream = new CallStream<string, Result, string, FakePipe>({
    codec,
    timing: {
      now: () => Date.now(),
      after(ms, callback) {
        const timer = setTimeout(() => {
          timers.delete(timer);
          callback();
        }, ms);
        timers.add(timer);
        return () => {
          timers.delete(timer);
          clearTimeout(timer);
        };
      },
    },
    soon: (callback) => void turn.push(callback),
    messageBytes: 1_000,
    onLateAnswer: (result) => late.push(result),
    onOver: (end) => over.push(end),
    ...options,
    open: (listener) => new FakePipe(listener),
  });
  const send = (waits: boolean, options: Partial<Request>) => {
    const outcomes: Outcome[] = [];
    stream.send({ request: '', waits, size: 10, ...options }, (outcome) => outcomes.push(outcome));
    return outcomes;
  };
  return {
    stream,
    pipe: stream.pipe,
    late,
    over,
    timers,
    update: (options: Partial<Request> = {}) => send(false, options),
    lease: (options: Partial<Request> = {}) => send(true, options),
    /** Ends the turn of the event loop. */
    endTurn: () => {
      for (const callback of turn.splice(0)) callback();
    },
    sent: () => stream.pipe.messages.map(({ calls }) => calls),
  };
}

const answered = (id: number, givenUp?: string) => [{ kind: 'answered', result: { id }, givenUp }];

describe('calls', () => {
  test('of one turn go out in one message, and are answered in any order', () => {
    const { pipe, update, lease, endTurn, sent, stream } = setUp();
    const [first, second, third] = [update(), lease(), update()];
    endTurn();
    expect(sent()).toEqual([[1, 2, 3]]);
    pipe.answer(3, 2);
    pipe.answer(1);
    expect(first).toEqual(answered(1));
    expect(second).toEqual(answered(2));
    expect(third).toEqual(answered(3));
    expect(stream.isIdle).toBe(true);
  });

  test('are divided over messages of the size, and a larger one has a message of its own', () => {
    const { update, endTurn, sent } = setUp();
    for (const size of [400, 400, 3_000, 10]) update({ size });
    endTurn();
    expect(sent()).toEqual([[1, 2], [3], [4]]);
  });

  test('that cannot be encoded fail, and the others of their message are sent alone', () => {
    const { pipe, update, endTurn, sent } = setUp();
    const [good, bad, other] = [update(), update({ request: 'unencodable' }), update()];
    endTurn();
    expect(bad).toMatchObject([{ kind: 'unencodable', cause: { message: 'a fraction' } }]);
    expect(sent()).toEqual([[1], [3]]);
    pipe.answer(1, 3);
    expect([good, other]).toEqual([answered(1), answered(3)]);
  });

  test('wait if more would be in flight than allowed; those that do not count go out', () => {
    const { pipe, update, lease, endTurn, sent } = setUp({ mostInFlight: 2 });
    for (let i = 0; i < 3; i++) lease({ counted: false });
    for (let i = 0; i < 4; i++) update();
    endTurn();
    expect(sent()).toEqual([[1, 2, 3, 4, 5]]);
    pipe.answer(4);
    endTurn();
    expect(sent().at(-1)).toEqual([6]);
  });

  test.each(['an update', 'a lease'])('that wait get the place of a call that is given up: %s', async (kind) => {
    const { lease, update, endTurn, sent } = setUp({ mostInFlight: 1 });
    if (kind === 'an update') update({ timeoutMs: 50 });
    else lease({ timeoutMs: 50 });
    update();
    endTurn();
    expect(sent()).toEqual([[1]]);
    await vi.advanceTimersByTimeAsync(100);
    endTurn();
    await vi.advanceTimersByTimeAsync(1_100);
    endTurn();
    expect(sent().flat()).toEqual([1, 2]);
  });

  test('wait for a peer that reads no messages, and then share one', () => {
    const { pipe, update, endTurn, sent } = setUp();
    pipe.takes = false;
    update();
    endTurn();
    for (let i = 0; i < 10; i++) {
      update();
      endTurn();
    }
    expect(sent()).toHaveLength(1);
    pipe.takes = true;
    pipe.node.onDrain();
    expect(sent().map((calls) => calls.length)).toEqual([1, 10]);
  });

  test('find no room beside more calls, or more bytes, than a node reads', () => {
    const many = setUp();
    for (let i = 0; i < 8_191; i++) many.update();
    expect(many.stream.hasRoom).toBe(true);
    many.update();
    expect(many.stream.hasRoom).toBe(false);
    const large = setUp();
    large.update({ size: 4 * 1024 * 1024 });
    expect(large.stream.hasRoom).toBe(false);
    large.endTurn();
    large.pipe.answer(1);
    expect(large.stream.hasRoom).toBe(true);
  });
});

describe('an update that is given up', () => {
  test.each([true, false])('settles at once, and says whether it was sent (%s)', async (isSent) => {
    const { pipe, update, endTurn, stream } = setUp();
    const giveUp = new AbortController();
    const calls = [update({ signal: giveUp.signal }), update({ timeoutMs: 50 })];
    if (isSent) endTurn();
    giveUp.abort();
    await vi.advanceTimersByTimeAsync(100);
    const [cancelled, overdue] = calls;
    expect(cancelled).toEqual([{ kind: 'givenUp', why: 'cancelled', sent: isSent }]);
    expect(overdue).toEqual([{ kind: 'givenUp', why: 'deadline', sent: isSent }]);
    endTurn();
    expect(pipe.messages).toHaveLength(isSent ? 1 : 0);
    expect(stream.isIdle).toBe(true);
    pipe.answer(1);
    expect(cancelled).toHaveLength(1);
  });

  test('before it is made is not sent', () => {
    const { update, endTurn, sent } = setUp();
    expect(update({ signal: AbortSignal.abort() })).toEqual([{ kind: 'givenUp', why: 'cancelled', sent: false }]);
    endTurn();
    expect(sent()).toEqual([]);
  });
});

describe('a lease that is given up', () => {
  test.each(['cancelled', 'deadline'] as const)(
    'is cancelled at the node, and settles with its answer (%s)',
    async (why) => {
      const { pipe, lease, endTurn, timers } = setUp();
      const giveUp = new AbortController();
      const call = lease(why === 'deadline' ? { timeoutMs: 50 } : { signal: giveUp.signal });
      endTurn();
      if (why === 'deadline') await vi.advanceTimersByTimeAsync(100);
      else giveUp.abort();
      endTurn();
      expect(pipe.messages[1]).toEqual({ calls: [], cancels: [1] });
      expect(call).toEqual([]);
      pipe.answer(1);
      expect(call).toEqual(answered(1, why));
      expect(timers.size).toBeLessThanOrEqual(1);
    },
  );

  test('does not wait long for a silent node; a late answer says which tasks to release', async () => {
    const { pipe, lease, endTurn, late, stream } = setUp();
    const giveUp = new AbortController();
    const call = lease({ signal: giveUp.signal });
    endTurn();
    giveUp.abort();
    await vi.advanceTimersByTimeAsync(1_100);
    expect(call).toEqual([{ kind: 'givenUp', why: 'cancelled', sent: true }]);
    expect(stream.isIdle).toBe(false);
    pipe.answer(1);
    expect(late).toEqual([{ id: 1 }]);
    expect(call).toHaveLength(1);
    expect(stream.isIdle).toBe(true);
  });

  test('together with many others goes out in messages of at most as many calls as a node accepts', () => {
    const { pipe, lease, endTurn } = setUp({ messageBytes: 1_000_000 });
    const giveUp = new AbortController();
    for (let i = 0; i <= limits.streamCalls; i++) lease({ signal: giveUp.signal });
    endTurn();
    giveUp.abort();
    endTurn();
    expect(pipe.messages.map(({ calls }) => calls.length)).toEqual([limits.streamCalls, 1, 0, 0]);
    expect(pipe.messages.map(({ cancels }) => cancels.length)).toEqual([0, 0, limits.streamCalls, 1]);
  });
});

describe('when the stream is over', () => {
  test('because it broke, all its calls are lost, and unsent ones are known to be unsent', () => {
    const { pipe, update, endTurn, over, timers } = setUp({ mostInFlight: 1 });
    const [sent, unsent] = [update({ timeoutMs: 1_000 }), update()];
    endTurn();
    pipe.node.onEnd('reset');
    const end = { kind: 'ended', error: 'reset' };
    expect(sent).toEqual([{ kind: 'lost', end, sent: true }]);
    expect(unsent).toEqual([{ kind: 'lost', end, sent: false }]);
    expect(over).toEqual([end]);
    expect(timers.size).toBe(0);
  });

  test('because an answer cannot be read, it is reset', () => {
    const { pipe, update, endTurn, over } = setUp();
    const call = update();
    endTurn();
    pipe.node.onMessage(Buffer.from('?'));
    expect(call).toMatchObject([{ kind: 'lost', end: { kind: 'damaged' }, sent: true }]);
    expect(pipe.state).toBe('aborted');
    expect(over).toHaveLength(1);
  });

  test('because it was closed, it is reset', () => {
    const { pipe, update, endTurn, stream } = setUp();
    const call = update();
    endTurn();
    stream.close();
    expect(call).toEqual([{ kind: 'lost', end: { kind: 'closed' }, sent: true }]);
    expect(pipe.state).toBe('aborted');
  });

  test('because a caller closed it when its call was overdue, other overdue calls settle once', async () => {
    const { update, stream } = setUp();
    stream.send({ request: '', waits: false, size: 10, timeoutMs: 50 }, () => stream.close());
    const other = update({ timeoutMs: 50 });
    await vi.advanceTimersByTimeAsync(100);
    expect(other).toEqual([{ kind: 'lost', end: { kind: 'closed' }, sent: false }]);
  });

  test('after its last answer, it ends without a reset', () => {
    const { pipe, update, endTurn, stream, over } = setUp();
    const call = update();
    endTurn();
    stream.end();
    expect(pipe.state).toBe('open');
    pipe.answer(1);
    expect(call).toHaveLength(1);
    expect(pipe.state).toBe('ended');
    expect(over).toEqual([{ kind: 'closed' }]);
  });
});
