import { status } from '@grpc/grpc-js';
import { VirtualClock } from '@taskmaster/engine/testing';
import {
  encodeToBuffer,
  LeasedTask,
  LeaseTasksRequest,
  LeaseTasksResponse,
  StreamRequest,
  StreamResponse,
  type StreamResult,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { aLease } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { type FakePipe, FakeUpstream, refused } from '../testing/fake-upstream.ts';
import { StreamSender } from './stream-sender.ts';
import { LostError } from './upstream.ts';

const UPDATE = Buffer.from([0x2a, 0x01, 0x78]); // an update of nothing, with the request id "x"
const ANYONE = { access: unlimitedAccess };
const LEASE = Buffer.from([0x10, 0x01]); // of one task

function setUp() {
  const upstream = new FakeUpstream();
  const clock = new VirtualClock();
  const due: (() => void)[] = [];
  const givenBack: Uint8Array[] = [];
  const sender = new StreamSender({
    upstream,
    peer: { address: 'me:1', principal: '' },
    timing: {
      now: () => clock.now(),
      after: (ms, callback) => clock.at((clock.now() + ms) as ReturnType<typeof clock.now>, callback),
    },
    soon: (callback) => void due.push(callback),
    giveBack: (reply) => void givenBack.push(reply),
  });
  return {
    upstream,
    clock,
    sender,
    givenBack,
    send: (address = 'a:1') => settled(sender.send(address, 'UpdateTasks', UPDATE, ANYONE)),
    turn: () => {
      for (const callback of due.splice(0)) callback();
    },
  };
}

/** A promise whose failure is a value. */
const settled = (promise: Promise<Uint8Array>): Promise<unknown> => promise.catch((thrown: unknown) => thrown);
const callsIn = (pipe: FakePipe | undefined) =>
  (pipe?.written ?? []).map((message) => StreamRequest.decode(message).calls);
const answer = (pipe: FakePipe | undefined, ...results: StreamResult[]): void =>
  pipe?.say(encodeToBuffer(StreamResponse, { results }));
const updated = (id: number): StreamResult => ({
  id,
  result: { $case: 'update', value: { enqueued: [], renewed: [], released: [], refused: [] } },
});

test('calls of one turn share a message, over one stream to each node', async () => {
  const { upstream, send, turn } = setUp();
  const calls = [send('a:1'), send('b:1'), send('a:1')];
  turn();
  const [a, b] = upstream.streams;
  expect(callsIn(a).map((message) => message.map(({ id }) => id))).toEqual([[1, 2]]);
  expect(callsIn(b)).toMatchObject([[{ id: 1, call: { $case: 'update' } }]]);
  answer(a, updated(2), updated(1));
  answer(b, updated(1));
  expect(await Promise.all(calls)).toEqual([expect.any(Uint8Array), expect.any(Uint8Array), expect.any(Uint8Array)]);
});

test('a broken stream fails its own calls only, and unsent ones are known to be unsent', async () => {
  const { upstream, send, turn } = setUp();
  const [sent, elsewhere] = [send('a:1'), send('b:1')];
  turn();
  const [a, b] = upstream.streams as [FakePipe, FakePipe];
  const unsent = send('a:1');
  a.breakWith(new LostError('reset', 'connection', true));
  expect(await sent).toMatchObject({ kind: 'connection', maybeApplied: true });
  expect(await unsent).toMatchObject({ kind: 'connection', maybeApplied: false });
  answer(b, updated(1));
  expect(await elsewhere).toBeInstanceOf(Uint8Array);
  void send('a:1');
  expect(upstream.streams.map(({ address }) => address)).toEqual(['a:1', 'b:1', 'a:1']);
});

test('a node that stops has answered all calls that it read: the others were not served', async () => {
  const { upstream, send, turn } = setUp();
  const call = send();
  turn();
  upstream.streams[0]?.breakWith(refused('SHUTTING_DOWN', status.UNAVAILABLE));
  expect(await call).toMatchObject({ kind: 'connection', maybeApplied: false });
});

test('a refusal reaches its call, and no other', async () => {
  const { upstream, send, turn } = setUp();
  const [first, second] = [send(), send()];
  turn();
  const error = { ...refused('LEASE_LOST', status.FAILED_PRECONDITION).error };
  answer(upstream.streams[0], { id: 1, result: { $case: 'error', value: error } }, updated(2));
  expect(await first).toMatchObject({ name: 'RefusedError', error: { reason: 'LEASE_LOST' } });
  expect(await second).toBeInstanceOf(Uint8Array);
});

test('a cancelled lease settles with the answer of the node, because it may have been granted before', async () => {
  const { upstream, sender, turn } = setUp();
  const abort = new AbortController();
  const lease = settled(sender.send('a:1', 'LeaseTasks', LEASE, { ...ANYONE, signal: abort.signal }));
  turn();
  abort.abort();
  turn();
  const [pipe] = upstream.streams as [FakePipe];
  expect(callsIn(pipe)[1]).toEqual([{ id: 1, call: { $case: 'cancel', value: {} } }]);
  sender.end();
  expect(pipe.state).toBe('open');
  answer(pipe, { id: 1, result: { $case: 'lease', value: { tasks: [], moreQueues: [] } } });
  expect(await lease).toBeInstanceOf(Uint8Array);
  expect(pipe.state).toBe('ended');
});

test('a cancelled lease does not wait for a silent node, and tasks of a late answer are released', async () => {
  const { upstream, clock, sender, turn, givenBack } = setUp();
  const lease = settled(sender.send('a:1', 'LeaseTasks', LEASE, { ...ANYONE, timeoutMs: 500 }));
  turn();
  await clock.advance(2_000);
  expect(await lease).toMatchObject({ kind: 'deadline', maybeApplied: true });
  const [pipe] = upstream.streams as [FakePipe];
  sender.end();
  expect(pipe.state).toBe('open');
  const tasks = [{ ...LeasedTask.decode(new Uint8Array(0)), queue: 'q', pid: Buffer.from('a'), leaseToken: 7 }];
  answer(pipe, { id: 1, result: { $case: 'lease', value: { tasks, moreQueues: [] } } });
  expect(givenBack.map((reply) => LeaseTasksResponse.decode(reply))).toMatchObject([{ tasks: [{ leaseToken: 7 }] }]);
  expect(pipe.state).toBe('ended');
});

test.each([
  ['calls', LEASE, 8_192],
  ['bytes', encodeToBuffer(LeaseTasksRequest, aLease({ queues: ['q'.repeat(512 * 1024)] })), 8],
])(
  'more %s than a node reads on one stream get another stream, which ends after them',
  async (_what, request, most) => {
    const { upstream, sender, turn } = setUp();
    const abort = new AbortController();
    const send = (signal?: AbortSignal) => settled(sender.send('a:1', 'LeaseTasks', request, { ...ANYONE, signal }));
    for (let call = 0; call < most; call++) void send();
    const last = send(abort.signal);
    turn();
    const [first, extra] = upstream.streams as [FakePipe, FakePipe];
    expect(callsIn(first).flat()).toHaveLength(most);
    expect(callsIn(extra).flat()).toHaveLength(1);
    abort.abort();
    turn();
    answer(extra, { id: 1, result: { $case: 'error', value: refused('CANCELLED', status.CANCELLED).error } });
    expect(await last).toMatchObject({ error: { reason: 'CANCELLED' } });
    expect([first.state, extra.state]).toEqual(['open', 'ended']);
    answer(first, { id: 1, result: { $case: 'lease', value: { tasks: [], moreQueues: [] } } });
    void send();
    turn();
    expect(upstream.streams).toHaveLength(2);
    expect(callsIn(first).flat()).toHaveLength(most + 1);
  },
);

test('answers are held back at every node while the caller does not read', () => {
  const { upstream, sender, send, turn } = setUp();
  void send('a:1');
  turn();
  sender.hold(true);
  void send('b:1');
  turn();
  expect(upstream.streams.map(({ held }) => held)).toEqual([true, true]);
  sender.hold(false);
  expect(upstream.streams.map(({ held }) => held)).toEqual([false, false]);
});

test('an answer that cannot be decoded ends the stream', async () => {
  const { upstream, send, turn } = setUp();
  const call = send();
  turn();
  upstream.streams[0]?.say(Buffer.from([0x0a, 0x7f]));
  expect(await call).toMatchObject({ kind: 'broken' });
  expect(upstream.streams[0]?.state).toBe('aborted');
});
