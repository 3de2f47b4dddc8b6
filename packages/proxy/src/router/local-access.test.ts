import { SeededRandom, settle, VirtualClock } from '@taskmaster/engine/testing';
import {
  BatchLeaseTasksRequest,
  BatchUpdateTasksRequest,
  CallField,
  DeleteQueueRequest,
  encodeStreamEntries,
  encodeToBuffer,
  GetTasksRequest,
  LeaseTasksRequest,
  ListQueuesRequest,
  UpdateTasksRequest,
  WaitForTasksRequest,
} from '@taskmaster/proto';
import { type CallerAccess, unlimitedAccess } from '@taskmaster/server/access';
import { aGet, aLease, aList, anEnqueue, anUpdate, aWait } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { FakeUpstream } from '../testing/fake-upstream.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';
import { createRouterService } from './router-service.ts';
import { Router } from './routing/router.ts';

/* A service of this process checks rights as every node does, so it must know whose they are. */

/** Everything is allowed, but the rights are not unlimited. */
const access: CallerAccess = { ...unlimitedAccess, principal: 'shop', isUnlimited: false };

function setUp() {
  const upstream = Object.assign(new FakeUpstream(), { isLocal: () => true });
  const nodes = ['a', 'b'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
  const service = createRouterService(
    new Router({
      routes: new FixedRoutes({ nodes, partitions: 4 }),
      upstream,
      clock: new VirtualClock(),
      random: new SeededRandom(1),
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    }),
  );
  return { upstream, service };
}

const update = anUpdate({ enqueue: [anEnqueue()] });
const lease = aLease({ queues: ['g0#a', 'g1#a', 'g2#a'], waitMs: 0 });
const requests = {
  UpdateTasks: encodeToBuffer(UpdateTasksRequest, update),
  'UpdateTasks of many bytes': encodeToBuffer(
    UpdateTasksRequest,
    anUpdate({ enqueue: [anEnqueue({ data: Buffer.alloc(100_000) })] }),
  ),
  BatchUpdateTasks: encodeToBuffer(BatchUpdateTasksRequest, { requests: [update, update] }),
  LeaseTasks: encodeToBuffer(LeaseTasksRequest, aLease({ waitMs: 0 })),
  'LeaseTasks of many groups': encodeToBuffer(LeaseTasksRequest, lease),
  'LeaseTasks that waits': encodeToBuffer(LeaseTasksRequest, { ...lease, waitMs: 1_000 }),
  BatchLeaseTasks: encodeToBuffer(BatchLeaseTasksRequest, { requests: [aLease({ waitMs: 0 }), lease] }),
  WaitForTasks: encodeToBuffer(WaitForTasksRequest, aWait()),
  GetTasks: encodeToBuffer(GetTasksRequest, aGet()),
  DeleteQueue: encodeToBuffer(DeleteQueueRequest, { queue: 'g#q' }),
  ListQueues: encodeToBuffer(ListQueuesRequest, aList()),
};

const ORIGIN = { address: '1.1.1.1:1', routed: false, forwarded: false, access };

test.each(Object.entries(requests))(
  '%s has the rights of its caller at a node of this process',
  async (name, bytes) => {
    const { upstream, service } = setUp();
    const caller = { ...ORIGIN, gone: false, signal: undefined, deadline: Number.POSITIVE_INFINITY };
    // A wait that no task ends goes on.
    void service.unary[name.split(' ')[0] ?? '']?.(bytes, caller);
    await settle();
    expect(upstream.asked.length).toBeGreaterThan(0);
    for (const { options } of upstream.asked) expect(options.access).toBe(access);
    expect(upstream.streams).toEqual([]);
  },
);

test('calls of a stream have the rights of its caller', async () => {
  const { upstream, service } = setUp();
  const session = service.openStream(ORIGIN);
  const calls = session.read(
    encodeStreamEntries([
      { id: 1, field: CallField.update, bytes: requests.UpdateTasks },
      { id: 2, field: CallField.lease, bytes: requests.LeaseTasks },
      { id: 3, field: CallField.wait, bytes: requests.WaitForTasks },
    ]),
  );
  const caller = { address: '1.1.1.1:1', access, gone: false, signal: undefined };
  for (const call of calls) if ('run' in call) void call.run(caller);
  await settle();
  expect(upstream.asked).toHaveLength(3);
  for (const { options } of upstream.asked) expect(options.access).toBe(access);
});
