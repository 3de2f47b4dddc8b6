import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { unlimitedAccess } from '@taskmaster/server/access';
import { waitingLeaseKeepsMessage } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { FakeUpstream, lost, unsent } from '../testing/fake-upstream.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';
import { createClusterForwarding, createRouterService } from './router-service.ts';
import { Router } from './routing/router.ts';

test('a waiting lease does not keep its message in memory', async () => {
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
  expect(await waitingLeaseKeepsMessage(session)).toBe(false);
  // It was passed on, and is waited for.
  expect(upstream.streams.flatMap(({ written }) => written)).toHaveLength(1);
});

describe('after its answer was lost, and no node answers any more,', () => {
  /** Calls that change nothing. A call that stands in neither list is taken for one that changes something. */
  const READS: readonly string[] = [
    'ListMembers',
    'ListPartitions',
    'PeekTasks',
    'GetTasks',
    'ListQueueSettings',
    'ListSubscriptions',
    'ListQueues',
    'GetQueueStats',
    'ListSchedules',
    'ListBulkRuns',
    'ReadEvents',
  ];
  /** They are sent over streams: other tests have them. */
  const STREAMED: readonly string[] = [
    'UpdateTasks',
    'LeaseTasks',
    'BatchUpdateTasks',
    'BatchLeaseTasks',
    'WaitForTasks',
  ];

  function setUp() {
    const upstream = new FakeUpstream();
    upstream.answer = () => {
      throw upstream.asked.length === 1 ? lost() : unsent();
    };
    const clock = new VirtualClock();
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

  test.each(Object.keys(setUp().unary).filter((name) => !STREAMED.includes(name)))('%s', async (method) => {
    const { clock, unary } = setUp();
    // The first field of all these requests is a name, or the second.
    const name = [3, ...Buffer.from('g#q')];
    const request = Buffer.from(method === 'StartBulkRun' ? [0x0a, ...name, 0x12, ...name] : [0x0a, ...name]);
    const caller = {
      address: '127.0.0.1:1',
      routed: false,
      forwarded: false,
      access: unlimitedAccess,
      gone: false,
      signal: undefined,
      deadline: Number.POSITIVE_INFINITY,
    };
    const call = clock.run(unary[method]?.(request, caller) ?? Promise.reject(new Error(method)));
    const reason = await call.then(
      () => 'answered',
      (error: { reason: string }) => error.reason,
    );
    if (READS.includes(method)) expect(reason).not.toBe('OUTCOME_UNKNOWN');
    else expect(reason).toBe('OUTCOME_UNKNOWN');
  });
});
