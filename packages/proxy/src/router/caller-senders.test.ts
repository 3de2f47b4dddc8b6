import { VirtualClock } from '@taskmaster/engine/testing';
import { encodeToBuffer, StreamRequest, StreamResponse } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { expect, test } from 'vitest';
import { type FakePipe, FakeUpstream } from '../testing/fake-upstream.ts';
import { StreamSender } from '../upstream/stream-sender.ts';
import { CallerSenders } from './caller-senders.ts';

const LEASE = Buffer.from([0x10, 0x01]); // of one task

function setUp() {
  const upstream = new FakeUpstream();
  const clock = new VirtualClock();
  const router = {
    clock,
    isStopping: false,
    onStop: (listener: () => void) => {
      stopListener = listener;
      return () => {};
    },
  };
  let stopListener = (): void => {};
  const senders = new CallerSenders(
    router,
    (peer) =>
      new StreamSender({
        upstream,
        peer,
        timing: { now: () => 0, after: () => () => {} },
        soon: (callback) => callback(),
        giveBack: () => {},
      }),
  );
  const lease = (caller: string): Promise<unknown> =>
    senders.serve({ address: caller, principal: '' }, (sender) =>
      sender.send('a:1', 'LeaseTasks', LEASE, { access: unlimitedAccess }),
    );
  const stop = (): void => {
    router.isStopping = true;
    stopListener();
  };
  return { upstream, clock, lease, stop };
}

/** Answers all leases that a stream carries. */
function answer(pipe: FakePipe | undefined): void {
  const calls = (pipe?.written ?? []).flatMap((message) => StreamRequest.decode(message).calls);
  const results = calls.map(({ id }) => ({
    id,
    result: { $case: 'lease' as const, value: { tasks: [], moreQueues: [] } },
  }));
  pipe?.say(encodeToBuffer(StreamResponse, { results }));
}

test('calls of one caller share a stream to a node; another caller has its own stream', async () => {
  const { upstream, lease } = setUp();
  const leases = [lease('me:1'), lease('me:1'), lease('you:1')];
  expect(upstream.streams.map(({ peer, written }) => [peer, written.length])).toEqual([
    ['me:1', 2],
    ['you:1', 1],
  ]);
  for (const pipe of upstream.streams) answer(pipe);
  await Promise.all(leases);
});

test('streams of a caller without calls end after a while, and not before', async () => {
  const { upstream, clock, lease } = setUp();
  const first = lease('me:1');
  const waiting = lease('you:1');
  const [mine, yours] = upstream.streams as [FakePipe, FakePipe];
  answer(mine);
  await first;
  await clock.advance(4_000);
  const second = lease('me:1');
  await clock.advance(20_000);
  expect(upstream.streams.map(({ state }) => state)).toEqual(['open', 'open']);
  answer(mine);
  await second;
  await clock.advance(4_000);
  expect(mine.state).toBe('open');
  await clock.advance(10_000);
  expect([mine.state, yours.state]).toEqual(['ended', 'open']);
  void lease('me:1');
  expect(upstream.streams).toHaveLength(3);
  answer(yours);
  await waiting;
});

test('when the router stops, streams end after their last call', async () => {
  const { upstream, lease, stop } = setUp();
  const first = lease('me:1');
  const waiting = lease('you:1');
  const [mine, yours] = upstream.streams as [FakePipe, FakePipe];
  answer(mine);
  await first;
  stop();
  expect([mine.state, yours.state]).toEqual(['ended', 'open']);
  answer(yours);
  await waiting;
  expect(yours.state).toBe('ended');
});
