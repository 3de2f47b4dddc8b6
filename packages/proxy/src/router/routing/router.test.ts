import { status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import type { Repetition } from '@taskmaster/proto';
import { clusterAccess } from '@taskmaster/server/access';
import { describe, expect, test } from 'vitest';
import { FakeUpstream, lost, refused, unsent } from '../../testing/fake-upstream.ts';
import { FixedRoutes } from '../../testing/fixed-routes.ts';
import { unarySender } from '../../upstream/sender.ts';
import { LostError } from '../../upstream/upstream.ts';
import { routerItself } from '../routed-peer.ts';
import { DEFAULT_ROUTER_LIMITS, type RoutedCaller, Router, type RouterLimits } from './router.ts';

const LIMITS: RouterLimits = { ...DEFAULT_ROUTER_LIMITS, maxHeldCalls: 100, fanOutTimeoutMs: 1_000 };
const DONE = Buffer.from('done');
const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Two nodes, of which the first holds every partition. */
function setUp(limits: Partial<RouterLimits> = {}) {
  const upstream = new FakeUpstream();
  const clock = new VirtualClock();
  const nodes = ['a', 'b'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
  const routes = new FixedRoutes({ nodes, partitions: 4, holder: () => 0 });
  const router = new Router({
    routes,
    upstream,
    clock,
    random: new SeededRandom(1),
    log: SILENT,
    limits: { ...LIMITS, ...limits },
  });
  const caller: RoutedCaller = {
    sender: unarySender(upstream, routerItself),
    access: clusterAccess,
    gone: false,
    signal: undefined,
    until: undefined,
  };
  const call = (repetition: Repetition, from: Partial<RoutedCaller> = {}): Promise<Uint8Array> =>
    clock.run(
      router.toHolder(
        2,
        { method: 'UpdateTasks', request: () => Buffer.from('x'), repetition },
        { ...caller, ...from },
      ),
    );
  return { upstream, clock, routes, router, call, addresses: () => upstream.asked.map(({ address }) => address) };
}

/** What the call was refused with. */
async function refusalOf(call: Promise<unknown>): Promise<Refusal> {
  const thrown = await call.then(
    () => expect.unreachable('the call succeeded'),
    (error: unknown) => error,
  );
  expect(thrown).toBeInstanceOf(Refusal);
  return thrown as Refusal;
}

const movedTo = (address: string, epoch: number) =>
  refused('NOT_HOLDER', status.FAILED_PRECONDITION, {
    metadata: { partition: '2', holder: address, node_id: address.slice(0, 1), epoch: String(epoch) },
  });

describe('a call to the holder of a partition', () => {
  test('goes there unchanged', async () => {
    const { upstream, call } = setUp();
    upstream.answer = () => DONE;
    expect(await call('unsafe')).toBe(DONE);
    expect(upstream.asked).toMatchObject([{ address: 'a:1', method: 'UpdateTasks', options: { peer: routerItself } }]);
  });

  test('follows the partition at once, and the next one goes straight to its new holder', async () => {
    const { upstream, clock, call, addresses, routes } = setUp();
    upstream.answer = ({ address }) => (address === 'a:1' ? Promise.reject(movedTo('b:1', 2)) : DONE);
    const began = clock.now();
    expect(await call('unsafe')).toBe(DONE);
    expect(clock.now() - began).toBe(0);
    expect(routes.holderOf(2)).toEqual({ nodeId: 'b', address: 'b:1', epoch: 2 });
    await call('unsafe');
    expect(addresses()).toEqual(['a:1', 'b:1', 'b:1']);
  });

  test('ignores stale reports of a node', async () => {
    const { upstream, routes, call } = setUp();
    routes.set(2, 1, 5);
    upstream.answer = ({ address }) => (address === 'a:1' ? DONE : Promise.reject(movedTo('a:1', 3)));
    const refusal = await refusalOf(call('unsafe'));
    expect(refusal.reason).toBe('HOLDER_UNREACHABLE');
    expect(routes.holderOf(2)?.address).toBe('b:1');
  });

  test('is held while the partition moves, and ends well when it has', async () => {
    const { upstream, clock, call } = setUp();
    const began = clock.now();
    upstream.answer = () =>
      clock.now() - began < 500 ? Promise.reject(refused('PARTITION_MOVING', status.UNAVAILABLE)) : DONE;
    expect(await call('unsafe')).toBe(DONE);
    expect(clock.now() - began).toBeLessThan(800);
  });

  test('is held no longer than 2 s, and no longer than its caller waits', async () => {
    const { upstream, clock, call } = setUp();
    upstream.answer = () => Promise.reject(refused('PARTITION_MOVING', status.UNAVAILABLE, { retryDelayMs: 77 }));
    let began: number = clock.now();
    const refusal = await refusalOf(call('unsafe'));
    expect(refusal.reason).toBe('PARTITION_MOVING');
    expect(clock.now() - began).toBeGreaterThan(1_500);
    expect(clock.now() - began).toBeLessThanOrEqual(2_000);
    began = clock.now();
    await refusalOf(call('unsafe', { until: began + 300 }));
    expect(clock.now() - began).toBeLessThanOrEqual(300);
  });

  test('is held for a node that died a moment ago, as it may only be restarted', async () => {
    const { upstream, clock, routes, call } = setUp();
    routes.change(0, { alive: false });
    const began = clock.now();
    upstream.answer = () => (clock.now() - began < 1_000 ? Promise.reject(unsent()) : DONE);
    expect(await call('read')).toBe(DONE);
  });

  test('is not held for a node that has been dead for a while', async () => {
    const { upstream, clock, routes, call } = setUp();
    routes.change(0, { alive: false });
    upstream.answer = () => Promise.reject(unsent());
    for (const until = clock.now() + 10_000; clock.now() < until; ) await refusalOf(call('read'));
    const began = clock.now();
    const refusal = await refusalOf(call('read'));
    expect(refusal).toMatchObject({ reason: 'HOLDER_UNREACHABLE', metadata: { partition: '2', holder: 'a:1' } });
    expect(refusal.retryDelayMs).toBeGreaterThan(0);
    expect(clock.now()).toBe(began);
  });

  test('is not held beside too many others', async () => {
    const { upstream, clock, call } = setUp({ maxHeldCalls: 0 });
    upstream.answer = () => Promise.reject(unsent());
    const began = clock.now();
    expect((await refusalOf(call('read'))).reason).toBe('HOLDER_UNREACHABLE');
    expect(clock.now()).toBe(began);
  });

  test('waits for a holder to become known', async () => {
    const { upstream, clock, routes, call } = setUp();
    routes.set(2, undefined, 1);
    clock.at((clock.now() + 100) as ReturnType<typeof clock.now>, () => routes.set(2, 1, 1));
    upstream.answer = () => DONE;
    expect(await call('unsafe')).toBe(DONE);
    expect(upstream.asked).toMatchObject([{ address: 'b:1' }]);
  });

  test.each(['OVERLOADED', 'DISK_FULL', 'STORE_FAILED'])('leaves %s to the caller', async (reason) => {
    const { upstream, call } = setUp();
    const code = reason === 'STORE_FAILED' ? status.UNAVAILABLE : status.RESOURCE_EXHAUSTED;
    upstream.answer = () => Promise.reject(refused(reason, code));
    expect((await refusalOf(call('read'))).reason).toBe(reason);
    expect(upstream.asked).toHaveLength(1);
  });

  test('ends when its caller has cancelled it', async () => {
    const { upstream, call } = setUp();
    upstream.answer = () => Promise.reject(unsent());
    expect((await refusalOf(call('read', { gone: true }))).reason).toBe('CANCELLED');
    expect(upstream.asked).toHaveLength(1);
  });
});

describe('a connection that breaks', () => {
  test.each<[Repetition, boolean]>([
    ['read', true],
    ['harmless', true],
    ['unsafe', false],
  ])('after the call was sent: %s, repeated: %s', async (repetition, repeated) => {
    const { upstream, call } = setUp();
    upstream.answer = () => (upstream.asked.length === 1 ? Promise.reject(lost()) : DONE);
    if (repeated) expect(await call(repetition)).toBe(DONE);
    else expect((await refusalOf(call(repetition))).reason).toBe('OUTCOME_UNKNOWN');
    expect(upstream.asked).toHaveLength(repeated ? 2 : 1);
  });

  test.each<Repetition>(['read', 'harmless', 'unsafe'])('before it was sent harms no call: %s', async (repetition) => {
    const { upstream, call } = setUp();
    upstream.answer = () => (upstream.asked.length < 4 ? Promise.reject(unsent()) : DONE);
    expect(await call(repetition)).toBe(DONE);
  });

  test('leaves it open whether an update was applied, whatever later attempts get', async () => {
    const { upstream, call } = setUp();
    upstream.answer = () =>
      Promise.reject(upstream.asked.length === 1 ? lost() : refused('OVERLOADED', status.RESOURCE_EXHAUSTED));
    expect((await refusalOf(call('harmless'))).reason).toBe('OUTCOME_UNKNOWN');
  });

  test.each([
    ['TASK_NOT_FOUND', status.NOT_FOUND, 'OUTCOME_UNKNOWN'],
    ['EMPTY_REQUEST', status.INVALID_ARGUMENT, 'EMPTY_REQUEST'],
  ])('may deliver the call late: a later %s is no final word', async (reason, code, told) => {
    const { upstream, call } = setUp();
    upstream.answer = () => Promise.reject(upstream.asked.length === 1 ? lost() : refused(reason, code));
    expect((await refusalOf(call('harmless'))).reason).toBe(told);
  });

  test.each([
    ['read', 'INTERNAL'],
    ['harmless', 'OUTCOME_UNKNOWN'],
    ['unsafe', 'OUTCOME_UNKNOWN'],
  ] as const)('with an answer that cannot be understood: %s, %s', async (repetition, reason) => {
    const { upstream, call } = setUp();
    upstream.answer = () => Promise.reject(new LostError('the node sent a damaged answer', 'broken', true));
    expect((await refusalOf(call(repetition))).reason).toBe(reason);
    expect(upstream.asked).toHaveLength(1);
  });

  test('of a read says only that no node was reached', async () => {
    const { upstream, call } = setUp();
    upstream.answer = () => Promise.reject(lost());
    expect((await refusalOf(call('read'))).reason).toBe('HOLDER_UNREACHABLE');
  });
});

describe('a call that any node can answer', () => {
  test('goes to the next one where one cannot be reached', async () => {
    const { upstream, clock, router } = setUp();
    upstream.answer = () => (upstream.asked.length === 1 ? Promise.reject(unsent()) : DONE);
    const caller = {
      sender: unarySender(upstream, routerItself),
      access: clusterAccess,
      gone: false,
      signal: undefined,
      until: undefined,
    };
    const call = { method: 'UpdateTasks', request: () => DONE, repetition: 'unsafe' } as const;
    expect(await clock.run(router.toAnyNode(call, caller))).toBe(DONE);
    expect(new Set(upstream.asked.map(({ address }) => address)).size).toBe(2);
  });
});
