import { SystemClock } from '@taskmaster/engine/ports';
import { SeededRandom } from '@taskmaster/engine/testing';
import {
  encodeToBuffer,
  GetTasksRequest,
  GetTasksResponse,
  StreamRequest,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { type Caller, IdentitySeal, type RawService, type StreamReply } from '@taskmaster/server/calls';
import { accessFor, aGet, anEnqueue, anUpdate, startServer, type TestServer } from '@taskmaster/server/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { createRouterService } from '../router/router-service.ts';
import { DEFAULT_ROUTER_LIMITS, Router } from '../router/routing/router.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';
import { NodePool } from './node-pool.ts';

const KEY = 'a key of the cluster';
const MINUTE = 60_000;
const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const UPDATE = encodeToBuffer(UpdateTasksRequest, anUpdate({ enqueue: [anEnqueue()] }));
const GET = encodeToBuffer(GetTasksRequest, aGet());

let opened = new AsyncDisposableStack();
afterEach(async () => {
  await opened.disposeAsync();
  opened = new AsyncDisposableStack();
});

/** Time whose system clock a test sets. */
class Time {
  wallAheadMs: number;
  elapsedMs = 0;
  constructor(wallAheadMs: number) {
    this.wallAheadMs = wallAheadMs;
  }
  wall = () => Date.UTC(2030, 0, 1) + this.elapsedMs + this.wallAheadMs;
  elapsed = () => 77_000 + this.elapsedMs;
}

/** Two methods that ask for rights, as a node does, and change nothing. */
function servedTo() {
  const asked: string[] = [];
  const service: RawService = {
    unary: {
      GetTasks: async (_request, { access }) => {
        access.require('read', 'billing');
        asked.push('GetTasks');
        return GetTasksResponse.encode({ tasks: [] }).finish();
      },
    },
    openStream: () => ({
      read: (message) => StreamRequest.decode(message).calls.map(({ id }) => ({ kind: 'update', id, run })),
      hold: () => {},
      close: () => {},
    }),
  };
  const run = async ({ access }: Caller): Promise<StreamReply> => {
    access.require('enqueue', 'billing');
    asked.push('UpdateTasks');
    return { $case: 'update', value: { enqueued: [], renewed: [], released: [], refused: [] } };
  };
  return { service, asked };
}

/** A node with rules and a key, and a router with the same key. Their system clocks differ. */
async function setUp(
  aheadMs: number,
  sealWith = (time: Time) => new IdentitySeal([KEY], time),
  holdTimeoutMs = 20_000,
) {
  const [theirs, own] = [new Time(0), new Time(aheadMs)];
  const { service, asked } = servedTo();
  const node: TestServer = opened.use(
    await startServer(service, { access: accessFor('billing'), identities: new IdentitySeal([KEY], theirs) }),
  );
  const pool = opened.use(new NodePool({ seal: sealWith(own) }));
  const address = `127.0.0.1:${node.port}`;
  const routes = new FixedRoutes({ nodes: [{ nodeId: 'a', name: 'a', address, alive: true }], partitions: 4 });
  const clock = new SystemClock();
  const limits = { ...DEFAULT_ROUTER_LIMITS, holdTimeoutMs };
  const router = new Router({ routes, upstream: pool, clock, random: new SeededRandom(1), log: SILENT, limits });
  opened.defer(() => router.stop());
  const { unary } = createRouterService(router);
  const access = { ...unlimitedAccess, principal: 'billing' };
  const caller = {
    address: '10.9.9.9:1',
    routed: false,
    forwarded: false,
    access,
    gone: false,
    signal: undefined,
    deadline: Number.POSITIVE_INFINITY,
  };
  const ask = (method: 'UpdateTasks' | 'GetTasks'): Promise<string> =>
    (unary[method]?.(method === 'GetTasks' ? GET : UPDATE, caller) ?? Promise.reject(new TypeError(method))).then(
      () => 'ok',
      ({ reason, message }) => `${reason}: ${message}`,
    );
  return { node, asked, theirs, own, ask };
}

describe.each([10 * MINUTE, -10 * MINUTE, 10 * 365 * 24 * 60 * MINUTE])('a clock that is %i ms ahead', (aheadMs) => {
  test('does not keep a router from forwarding calls', async () => {
    const { ask, node } = await setUp(aheadMs);
    const asked = Array.from({ length: 20 }, () => [ask('UpdateTasks'), ask('GetTasks')]).flat();
    expect([...new Set(await Promise.all(asked))]).toEqual(['ok']);
    // The challenge is asked for once by each connection and stream, not by each call.
    node.ended.length = 0;
    expect([await ask('UpdateTasks'), await ask('GetTasks')]).toEqual(['ok', 'ok']);
    expect(node.ended.map(({ reason }) => reason)).toEqual([undefined, undefined]);
  });
});

test.each(['theirs', 'own'] as const)('a clock that jumps while both run is of no matter (%s)', async (whose) => {
  const { ask, theirs, own, ...times } = await setUp(0);
  expect([await ask('UpdateTasks'), await ask('GetTasks')]).toEqual(['ok', 'ok']);
  for (const jumpMs of [60 * MINUTE, -180 * MINUTE, 7 * MINUTE]) {
    ({ theirs, own })[whose].wallAheadMs += jumpMs;
    for (const time of [theirs, own]) time.elapsedMs += 2 * MINUTE;
    expect([await ask('UpdateTasks'), await ask('GetTasks')]).toEqual(['ok', 'ok']);
  }
  expect(times.node.ended.length).toBeGreaterThan(0);
});

test.each(['theirs', 'own'] as const)(
  'a machine that sleeps while both run is of no matter (not %s)',
  async (whose) => {
    const { ask, ...times } = await setUp(60 * MINUTE, undefined, 300);
    expect([await ask('UpdateTasks'), await ask('GetTasks')]).toEqual(['ok', 'ok']);
    // Time that elapses on one machine alone. The header from before is still in use.
    for (const aloneMs of [10 * MINUTE, 6 * MINUTE]) {
      times[whose].elapsedMs += aloneMs;
      expect([await ask('UpdateTasks'), await ask('GetTasks')]).toEqual(['ok', 'ok']);
    }
  },
);

test('a router that cannot answer a challenge learns that nothing has changed', async () => {
  // As an earlier release.
  class Earlier extends IdentitySeal {
    override receiverOf(): undefined {}
  }
  const { ask, asked } = await setUp(10 * MINUTE, (time) => new Earlier([KEY], time), 50);
  const answers = await Promise.all([ask('UpdateTasks'), ask('UpdateTasks'), ask('GetTasks')]);
  for (const answer of answers)
    expect(answer).toMatch(/^CLOCK_SKEW: .* 600 s ahead of .* nothing has changed; set the clocks/);
  expect(asked).toEqual([]);
});
