import { type Engine, openEngine } from '@taskmaster/engine';
import { SeededRandom, SimDisk, settle, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { createHandlers, createNodeService } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  LeaseTasksRequest,
  LeaseTasksResponse,
  partitionOf,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import { createRouterService, Router } from '@taskmaster/proxy/router';
import { FixedRoutes } from '@taskmaster/proxy/testing';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { RawService, UnaryCaller } from '@taskmaster/server/calls';
import { aLease, anEnqueue, anUpdate, bytes } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { DirectUpstream } from './support/direct-upstream.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const PARTITIONS = 8;
/** The epoch of every holder. What the routes believe at first is one epoch older. */
const EPOCH = 2;
const NODES = 3;

/** Three nodes on one virtual time, and two routers whose messages are lost or late. */
async function simulate(seed: number) {
  const random = new SeededRandom(seed);
  const time = new VirtualTime();
  const engines: Engine[] = [];
  const services = new Map<string, RawService>();
  for (let place = 0; place < NODES; place++) {
    const clock = new VirtualClock({ time });
    const store = new SimDisk({ random: new SeededRandom(seed + place), clock: time }).open();
    const config = { partitions: PARTITIONS };
    const engine = await time.run(openEngine({ store, clock, random, config, clustered: true }));
    const mine = Array.from({ length: PARTITIONS }, (_, id) => id).filter((id) => id % NODES === place);
    await time.run(engine.partitions.claim(mine.map((id) => ({ id: id as never, epoch: EPOCH }))));
    engine.partitions.locate((id) => ({ nodeId: `n${id % NODES}`, address: `n${id % NODES}:1`, epoch: EPOCH }));
    engines.push(engine);
    services.set(`n${place}:1`, createNodeService(createHandlers(engine, SILENT)));
  }
  const nodes = [0, 1, 2].map((place) => ({
    nodeId: `n${place}`,
    name: `n${place}`,
    address: `n${place}:1`,
    alive: true,
  }));
  const faults = { lossRate: 0.15 };
  const routers = [0, 1].map(() => {
    const clock = new VirtualClock({ time });
    const passage = () => ({ lost: random.next() < faults.lossRate, delayMs: Math.floor(random.next() * 20) });
    const upstream = new DirectUpstream({
      serviceAt: (at) => services.get(at),
      clock,
      log: SILENT,
      passage,
      lossMs: 40,
    });
    // At first no route is known: every partition is looked for at the first node.
    const routes = new FixedRoutes({ nodes, partitions: PARTITIONS, holder: () => 0 });
    return createRouterService(new Router({ routes, upstream, clock, random, log: SILENT }));
  });
  const caller: UnaryCaller = {
    address: 'sim',
    access: unlimitedAccess,
    gone: false,
    signal: undefined,
    routed: false,
    forwarded: false,
    deadline: Number.POSITIVE_INFINITY,
  };
  const ask = (method: string, request: Buffer): Promise<Uint8Array> => {
    const handler = routers[Math.floor(random.next() * routers.length)]?.unary[method];
    return handler === undefined ? Promise.reject(new TypeError(method)) : handler(request, caller);
  };
  return { random, time, engines, faults, ask };
}

/** With the losses of these tests, a call needs a few. */
const MOST_ATTEMPTS = 1_000;

const groups = ['a', 'b', 'c', 'd', 'e', 'f'];

test.each(Array.from({ length: 20 }, (_, i) => i))(
  'a call that is repeated through another proxy is applied once, with any losses (seed %i)',
  async (seed) => {
    const { time, engines, faults, ask } = await simulate(seed);
    expect(new Set(groups.map((group) => partitionOf(group, PARTITIONS) % NODES)).size).toBeGreaterThan(1);
    const enqueue = async (group: string, i: number): Promise<void> => {
      // FIFO: two applications would make two tasks.
      const item = anEnqueue({ queue: `${group}#q`, pid: bytes(''), data: bytes(`${i}`) });
      const request = encodeToBuffer(
        UpdateTasksRequest,
        anUpdate({ enqueue: [item], requestId: bytes(`${group}${i}`) }),
      );
      for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
        const reply = await ask('UpdateTasks', request).catch(() => undefined);
        if (reply !== undefined) {
          expect(UpdateTasksResponse.decode(reply).enqueued).toHaveLength(1);
          return;
        }
        await settle();
      }
      throw new Error(`no answer to ${group}${i} after ${MOST_ATTEMPTS} attempts`);
    };
    const each = 20;
    await time.run(Promise.all(groups.flatMap((group) => Array.from({ length: each }, (_, i) => enqueue(group, i)))));
    const sizes = await Promise.all(
      engines.map((engine) => engine.queueStats({ kind: 'filtered', filter: {} as never, limit: 100 })),
    );
    expect(sizes.reduce((sum, { totals }) => sum + totals.available, 0)).toBe(groups.length * each);

    // Without losses, leases over all nodes get every task exactly once.
    faults.lossRate = 0;
    const seen: string[] = [];
    for (let round = 0; seen.length < groups.length * each && round < 100; round++) {
      const lease = aLease({ queues: groups.map((group) => `${group}#q`), maxTasks: 17, waitMs: 1_000 });
      const replies = await time.run(
        Promise.all([1, 2].map(() => ask('LeaseTasks', encodeToBuffer(LeaseTasksRequest, lease)))),
      );
      for (const { tasks } of replies.map((reply) => LeaseTasksResponse.decode(reply))) {
        expect(tasks.length).toBeLessThanOrEqual(17);
        seen.push(...tasks.map(({ queue, data }) => `${queue} ${Buffer.from(data)}`));
      }
    }
    expect(new Set(seen).size).toBe(groups.length * each);
    expect(seen).toHaveLength(groups.length * each);
  },
);
