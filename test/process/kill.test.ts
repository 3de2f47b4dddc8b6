import { setTimeout as delay } from 'node:timers/promises';
import { connect, type TaskMasterClient, textCodec } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/node/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type History, showHistory } from '../support/history.ts';
import { eventsBehind, type FinalTask, violationsOf } from '../support/history-checker.ts';
import { slowness } from '../support/slowness.ts';
import { startNode } from '../support/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { LOAD_QUEUES, MixedLoad } from './mixed-load.ts';

/** 200 for a night. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 20);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);

type State = 'available' | 'leased' | 'delayed';

/** The PIDs a history tells of, by queue; dead letters keep theirs. */
function pidsIn({ events }: History): Map<string, Set<string>> {
  const pids = new Map<string, Set<string>>(LOAD_QUEUES.map((queue) => [queue, new Set()]));
  for (const { call, outcome } of events) {
    if (call.kind !== 'update' || outcome.kind !== 'updated') continue;
    for (const [index, { queue, retry }] of call.enqueue.entries()) {
      const pid = outcome.enqueued[index]?.pid;
      if (pid === undefined) continue;
      pids.get(queue)?.add(pid);
      if (retry !== undefined) pids.get('load#dead')?.add(pid);
    }
  }
  return pids;
}

/** (e): the counts are those of a full listing, whatever states the tasks are in. */
async function expectExactCounts(client: TaskMasterClient, history: History): Promise<void> {
  for (const [name, pids] of pidsIn(history)) {
    const queue = client.queue(name);
    // Leases and delays end while the tasks are listed: only counts that are the same before and after can be compared.
    await eventually(async () => {
      const before = await queue.stats();
      const listed: Record<State, number> = { available: 0, leased: 0, delayed: 0 };
      const all = [...pids].map((pid) => Buffer.from(pid, 'latin1'));
      for (let at = 0; at < all.length; at += 1_000) {
        for (const { state } of await queue.get(all.slice(at, at + 1_000), { data: false })) {
          if (state !== 'not-found') listed[state]++;
        }
      }
      const { available, leased, delayed } = await queue.stats();
      expect({ available, leased, delayed }).toMatchObject({
        available: before.available,
        leased: before.leased,
        delayed: before.delayed,
      });
      expect(listed).toEqual({ available, leased, delayed });
    });
  }
}

/** Everything there is, once all leases and delays have ended. */
async function drain(client: TaskMasterClient): Promise<FinalTask[]> {
  const found: FinalTask[] = [];
  for (const name of LOAD_QUEUES) {
    const queue = client.queue(name, { codec: textCodec });
    const { available } = await eventually(async () => {
      const stats = await queue.stats();
      expect(stats).toMatchObject({ leased: 0, delayed: 0 });
      return stats;
    });
    const before = found.length;
    for (let tasks = await queue.lease({ max: 1_000, for: '1h' }); tasks.length > 0; ) {
      for (const { pid, data } of tasks) found.push({ queue: name, pid: pid.toString(), data });
      tasks = await queue.lease({ max: 1_000, for: '1h' });
    }
    expect(found.length - before).toBe(available);
    expect(await queue.stats()).toMatchObject({ available: 0, leased: available, delayed: 0 });
  }
  return found;
}

test(`a node killed ${KILLS} times under load loses nothing, doubles nothing, tears nothing`, {
  timeout: 60_000 + KILLS * 15_000,
}, async () => {
  await using dir = await temporaryDirectory();
  const random = new SeededRandom(SEED);
  let node = await startNode({ dir: dir.path });
  const { grpcPort } = node;
  await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
  const load = await MixedLoad.start({ endpoint: node.endpoint, seed: SEED });
  const untilServed: number[] = [];
  for (let kill = 1; kill <= KILLS; kill++) {
    const enough = load.acknowledged + 50 + random.int(300);
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
    await delay(random.int(100)); // Any moment will do, as long as it is not always the same.
    await node.kill();
    const served = load.acknowledged;
    const began = performance.now();
    node = await startNode({ dir: dir.path, grpcPort });
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(served), { withinMs: 60_000, everyMs: 2 });
    untilServed.push(performance.now() - began);
  }
  await load.stop();

  await using client = await connect(node.endpoint);
  await expectExactCounts(client, load.history);
  const found = await drain(client);
  const { events } = load.history;
  const outcomes = Object.groupBy(events, ({ outcome }) => outcome.kind);
  const [median, worst] = [untilServed.toSorted((a, b) => a - b)[Math.floor(KILLS / 2)] ?? 0, Math.max(...untilServed)];
  console.log(
    `${KILLS} kills, seed ${SEED}: ${events.length} calls, ${outcomes.updated?.length} updates and ` +
      `${outcomes.leased?.length} leases acknowledged, ${outcomes.refused?.length ?? 0} refused, ` +
      `${outcomes.unknown?.length ?? 0} unknown, ${found.length} tasks left; ` +
      `from start to the first served call: median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms`,
  );
  const violations = violationsOf(events, found);
  const [first] = violations;
  expect(violations, first && showHistory(eventsBehind(first, events))).toEqual([]);
  expect(median).toBeLessThan(3_000 * (await slowness()));
});

test('a killed node with 50,000 tasks is back within 3 s', { timeout: 120_000 }, async () => {
  await using dir = await temporaryDirectory();
  const TASKS = 50_000;
  {
    await using node = await startNode({ dir: dir.path });
    await using client = await connect(node.endpoint);
    const items = Array.from({ length: TASKS / 5 }, (_, number) => ({ data: { number, filler: 'x'.repeat(200) } }));
    await Promise.all(Array.from({ length: 5 }, (_, queue) => client.queue(`many#${queue}`).enqueueMany(items)));
    await client.queue('many#0').lease({ max: 1_000, for: '1h' });
    await node.kill();
  }
  const before = await slowness();
  await using node = await startNode({ dir: dir.path });
  const slow = Math.max(before, await slowness());
  await using client = await connect(node.endpoint);
  const { totals } = await client.stats();
  console.log(
    `${TASKS} tasks, killed: ready after ${node.readyMs.toFixed(0)} ms on a machine that is ${slow.toFixed(1)} times slower than idle`,
  );
  expect(totals).toMatchObject({ available: TASKS - 1_000, leased: 1_000 });
  expect(node.readyMs).toBeLessThan(3_000 * slow);
});
