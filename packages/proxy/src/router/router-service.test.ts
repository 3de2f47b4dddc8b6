import { SeededRandom, settle, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import {
  type BatchUpdateTasksResponse,
  LeaseTasksRequest,
  methodKeys,
  methodName,
  methods,
  ReadEventsRequest,
  StreamRequest,
  WaitForTasksRequest,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { sampleBytes, waitingLeaseKeepsMessage } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { type FakePipe, FakeUpstream, lost, unsent } from '../testing/fake-upstream.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';
import type { LostError } from '../upstream/upstream.ts';
import { createClusterForwarding, createRouterService } from './router-service.ts';
import { Router } from './routing/router.ts';

/** A stream of a client to a proxy, and the nodes behind it. */
function openSession() {
  const upstream = new FakeUpstream();
  const nodes = [{ nodeId: 'a', name: 'a', address: 'a:1', alive: true }];
  const router = new Router({
    routes: new FixedRoutes({ nodes, partitions: 4, holder: () => 0 }),
    upstream,
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  });
  const session = createRouterService(router).openStream({
    address: '127.0.0.1:1',
    routed: false,
    forwarded: false,
    access: unlimitedAccess,
  });
  return { upstream, session };
}

test('a waiting lease does not keep its message in memory', async () => {
  const { upstream, session } = openSession();
  expect(await waitingLeaseKeepsMessage(session)).toBe(false);
  // It was passed on, and is waited for.
  expect(upstream.streams.flatMap(({ written }) => written)).toHaveLength(1);
});

test('the log of the proxy, and the node, learn the trace of each call that waits', async () => {
  const { upstream, session } = openSession();
  const traceOf = (id: number): string => `00-0af7651916cd43dd8448eb211c80319c-000000000000000${id}-01`;
  const calls = [
    { id: 1, call: { $case: 'lease', value: LeaseTasksRequest.decode(sampleBytes('leaseTasks', 'g#q')) } },
    { id: 2, call: { $case: 'wait', value: WaitForTasksRequest.decode(sampleBytes('waitForTasks', 'g#q')) } },
    { id: 3, call: { $case: 'events', value: ReadEventsRequest.decode(sampleBytes('readEvents', 'g#q')) } },
  ] as const;
  for (const { id, call } of calls) call.value.traceparent = traceOf(id);
  const read = session.read(Buffer.from(StreamRequest.encode({ calls: [...calls] }).finish()));
  const waiting = read.filter((operation) => operation.kind === 'waiting');
  expect(waiting.map(({ traceparent }) => traceparent)).toEqual([1, 2, 3].map(traceOf));
  const caller = { address: '127.0.0.1:1', access: unlimitedAccess, gone: false, signal: undefined };
  for (const { run } of waiting) void run(caller);
  await turns();
  const sent = upstream.streams.flatMap(({ written }) => written).flatMap((bytes) => StreamRequest.decode(bytes).calls);
  const traces = sent.map(({ call }) => call !== undefined && 'traceparent' in call.value && call.value.traceparent);
  expect(traces).toEqual([1, 2, 3].map(traceOf));
});

/** A stream writes its calls in the turn after they came. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await settle();
}

/** The answer to the first call is lost. The others are not sent. */
class LosingUpstream extends FakeUpstream {
  #isLost = false;
  override readonly answer = (): never => {
    throw this.#failure();
  };

  override stream(...given: Parameters<FakeUpstream['stream']>): ReturnType<FakeUpstream['stream']> {
    const pipe = super.stream(...given) as FakePipe;
    const write = (): boolean => {
      queueMicrotask(() => pipe.breakWith(this.#failure()));
      return true;
    };
    return Object.assign(pipe, { write });
  }

  #failure(): LostError {
    if (this.#isLost) return unsent();
    this.#isLost = true;
    return lost();
  }
}

describe('after its answer was lost, and no node answers any more,', () => {
  function setUp() {
    const upstream = new LosingUpstream();
    const clock = new VirtualClock({ time: new VirtualTime(undefined, turns) });
    const nodes = ['a', 'b'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
    const router = new Router({
      routes: new FixedRoutes({ nodes, partitions: 4, holder: () => 0 }),
      upstream,
      clock,
      random: new SeededRandom(1),
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    });
    const unary = { ...createRouterService(router).unary, ...createClusterForwarding(router).unary };
    return { clock, unary };
  }

  const served = setUp().unary;
  const keys = methodKeys.filter((key) => methodName(key) in served);

  test('the router serves every method but two', () => {
    expect(Object.keys(served).toSorted()).toEqual(keys.map((key) => methodName(key)).toSorted());
    // The proxy itself answers the one, and the other is a stream of its own.
    expect(methodKeys.filter((key) => !keys.includes(key))).toEqual(['whoAmI', 'backupPartition']);
  });

  test.each(keys)('%s', async (key) => {
    const { clock, unary } = setUp();
    const caller = {
      address: '127.0.0.1:1',
      routed: false,
      forwarded: false,
      access: unlimitedAccess,
      gone: false,
      signal: undefined,
      deadline: Number.POSITIVE_INFINITY,
    };
    const call = clock.run(unary[methodName(key)]?.(sampleBytes(key, 'g#q'), caller) ?? Promise.reject(new Error(key)));
    const reason = await call.then((reply) => reasonIn(methods[key].responseDeserialize(reply)), reasonOf);
    if (methods[key].repetition === 'read') expect(reason).toBe('HOLDER_UNREACHABLE');
    else expect(reason).toBe('OUTCOME_UNKNOWN');
  });
});

const reasonOf = (error: { readonly reason?: string }): string => error.reason ?? String(error);

/** A batch is answered for each of its requests. */
function reasonIn(reply: object): string {
  const [first] = 'results' in reply ? (reply.results as BatchUpdateTasksResponse['results']) : [];
  return first?.result?.$case === 'error' ? first.result.value.reason : 'answered';
}
