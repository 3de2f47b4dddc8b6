import { unlimitedAccess } from '@taskmaster/server/access';
import { SeededRandom, VirtualClock, waitingLeaseKeepsMessage } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { FakeUpstream } from '../testing/fake-upstream.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';
import { createRouterService } from './router-service.ts';
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
