import { type Engine, openEngine } from '@taskmaster/engine';
import { Refusal } from '@taskmaster/engine/domain';
import { SeededRandom, SimDisk, VirtualClock } from '@taskmaster/engine/testing';
import { createHandlers, createNodeService } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  LeaseTasksRequest,
  LeaseTasksResponse,
  partitionOf,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { createRouterService, Router } from '@taskmaster/proxy/router';
import { FixedRoutes } from '@taskmaster/proxy/testing';
import type { CallerAccess } from '@taskmaster/server/access';
import type { RawService, UnaryCaller } from '@taskmaster/server/calls';
import { aLease, anEnqueue, anUpdate, bytes } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { DirectUpstream } from './support/direct-upstream.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const PARTITIONS = 4;
const MINE = 'mine';
/** A group on the other node. */
const THEIRS = Array.from({ length: 100 }, (_, at) => `theirs-${at}`).find(
  (group) => partitionOf(group, PARTITIONS) % 2 !== partitionOf(MINE, PARTITIONS) % 2,
) as string;

/** A caller that has these rights as long as they are in the sets. */
function callerWith(enqueue: ReadonlySet<string>, lease: ReadonlySet<string>): CallerAccess {
  const allows = (right: string, group: string): boolean => (right === 'lease' ? lease : enqueue).has(group);
  return {
    principal: 'worker',
    isUnlimited: false,
    usage: undefined,
    credential: 'token',
    expiresAt: Number.POSITIVE_INFINITY,
    requireIdentity() {},
    require(right, group) {
      if (!allows(right, group)) throw new Refusal('PERMISSION_DENIED', `no right to ${right}`);
    },
    requireCluster() {},
    allows,
  };
}

const nobody: CallerAccess = {
  ...callerWith(new Set(), new Set()),
  requireIdentity() {
    throw new Refusal('UNAUTHENTICATED', 'no credential');
  },
};

/** Two nodes with a router, which calls both directly. */
async function setUp() {
  const clock = new VirtualClock();
  const engines: Engine[] = [];
  const services = new Map<string, RawService>();
  for (const place of [0, 1]) {
    const store = new SimDisk({ random: new SeededRandom(place), clock: clock.outside }).open();
    const engine = await clock.run(
      openEngine({
        store,
        clock,
        random: new SeededRandom(place),
        config: { partitions: PARTITIONS },
        clustered: true,
      }),
    );
    const ids = Array.from({ length: PARTITIONS }, (_, id) => id).filter((id) => id % 2 === place);
    await clock.run(engine.partitions.claim(ids.map((id) => ({ id: id as never, epoch: 1 }))));
    engines.push(engine);
    services.set(`n${place}:1`, createNodeService(createHandlers(engine, SILENT)));
  }
  const nodes = [0, 1].map((place) => ({
    nodeId: `n${place}`,
    name: `n${place}`,
    address: `n${place}:1`,
    alive: true,
  }));
  const passage = () => ({ lost: false, delayMs: 0 });
  const upstream = new DirectUpstream({ serviceAt: (at) => services.get(at), clock, log: SILENT, passage, lossMs: 1 });
  const routes = new FixedRoutes({ nodes, partitions: PARTITIONS });
  const router = createRouterService(new Router({ routes, upstream, clock, random: new SeededRandom(1), log: SILENT }));
  const ask = (by: CallerAccess, method: string, request: Buffer): Promise<Uint8Array> => {
    const caller: UnaryCaller = {
      address: 'test',
      access: by,
      gone: false,
      signal: undefined,
      routed: false,
      forwarded: false,
      deadline: Number.POSITIVE_INFINITY,
    };
    return router.unary[method]?.(request, caller) ?? Promise.reject(new TypeError(method));
  };
  const owner = { ...callerWith(new Set([MINE, THEIRS]), new Set([MINE, THEIRS])), principal: 'owner' };
  const lease = async (by: CallerAccess, change: Partial<LeaseTasksRequest>) => {
    const request = aLease({ queues: [], maxTasks: 10, maxMoreQueues: 10, ...change });
    const reply = LeaseTasksResponse.decode(await ask(by, 'LeaseTasks', encodeToBuffer(LeaseTasksRequest, request)));
    return { tasks: reply.tasks.map(({ queue }) => queue), more: reply.moreQueues.map(({ queue }) => queue) };
  };
  const enqueue = (queue: string) => {
    const update = anUpdate({ enqueue: [anEnqueue({ queue, pid: bytes('') })] });
    return clock.run(ask(owner, 'UpdateTasks', encodeToBuffer(UpdateTasksRequest, update)));
  };
  return { clock, owner, lease, enqueue };
}

const JOBS = { nameRegex: '#jobs$', group: undefined, afterQueues: 0, id: 1 };

test('a pattern over all groups gives tasks and names of queues only as far as the rights of its caller go', async () => {
  const { clock, owner, lease, enqueue } = await setUp();
  const groups = new Set([MINE]);
  const worker = callerWith(new Set(), groups);
  await enqueue(`${MINE}#jobs`);
  await enqueue(`${THEIRS}#jobs`);
  expect(await clock.run(lease(worker, { patterns: [JOBS] }))).toEqual({ tasks: [`${MINE}#jobs`], more: [] });
  expect((await clock.run(lease(worker, { patterns: [JOBS] }))).tasks).toEqual([]);

  const waiting = lease(worker, { patterns: [JOBS], waitMs: 60_000 });
  await clock.advance(1_000);
  await enqueue(`${THEIRS}#jobs`);
  await clock.advance(1_000);
  await enqueue(`${MINE}#jobs`);
  expect((await clock.run(waiting)).tasks).toEqual([`${MINE}#jobs`]);
  expect((await clock.run(lease(owner, { patterns: [JOBS] }))).tasks).toHaveLength(2);

  await enqueue(`${THEIRS}#jobs`);
  groups.add(THEIRS);
  expect((await clock.run(lease(worker, { patterns: [JOBS] }))).tasks).toEqual([`${THEIRS}#jobs`]);
});

test.each([
  ['of one group', 'PERMISSION_DENIED', callerWith(new Set(), new Set([MINE])), { ...JOBS, group: THEIRS }],
  ['of a caller without a credential', 'UNAUTHENTICATED', nobody, JOBS],
] as const)('a pattern %s is refused with %s', async (_what, reason, caller, pattern) => {
  const { lease } = await setUp();
  await expect(lease(caller, { patterns: [pattern] })).rejects.toMatchObject({ reason });
});
