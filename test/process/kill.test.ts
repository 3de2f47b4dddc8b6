import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

/** Number of kills. 200 for a long run. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 4);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);

test(`a node killed ${KILLS} times under load loses no task, doubles none, and applies every update entirely`, {
  timeout: 60_000 + KILLS * 15_000,
}, async () => {
  await using dir = await temporaryDirectory();
  const random = new SeededRandom(SEED);
  let node = await startNode({ dir: dir.path });
  const { grpcPort } = node;
  await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
  const load = await MixedLoad.start({ endpoints: node.endpoint, seed: SEED, pauseMs: 60 });
  const untilServed: number[] = [];
  for (let kill = 1; kill <= KILLS; kill++) {
    const enough = load.acknowledged + 50 + random.int(100);
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
    await delay(random.int(100)); // A random moment.
    await node.kill();
    const served = load.acknowledged;
    const began = performance.now();
    node = await startNode({ dir: dir.path, grpcPort });
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(served), { withinMs: 60_000, everyMs: 2 });
    untilServed.push(performance.now() - began);
  }
  await load.stop();

  await using client = await connect(node.endpoint);
  const { summary, problem } = await verifyLoad(client, load.history);
  const [median, worst] = [untilServed.toSorted((a, b) => a - b)[Math.floor(KILLS / 2)] ?? 0, Math.max(...untilServed)];
  console.log(
    `${KILLS} kills, seed ${SEED}: ${summary}; from start to the first served call: ` +
      `median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms`,
  );
  expect(problem).toBe('');
});
