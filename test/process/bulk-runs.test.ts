import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const TASKS = 6_000;
const KILLS = 3;
const QUEUE = 'shop#mail';
const MOVED = 'shop#moved';

test(`a bulk run goes on after each of ${KILLS} kills of its node, and changes each task once`, {
  timeout: 120_000,
}, async () => {
  await using dir = await temporaryDirectory();
  let node = await startNode({ dir: dir.path });
  const { grpcPort } = node;
  await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
  await using client = await connect(node.endpoint);
  await client.queue<number>(QUEUE).enqueueMany(Array.from({ length: TASKS }, (_, data) => ({ data })));
  const run = await client.bulk({ action: 'move', queues: 'shop#m*', to: MOVED, rate: 1_000 });
  const changed = async (): Promise<number> => (await run.progress({ timeout: '30s' }))?.changed ?? 0;
  for (let kill = 1; kill <= KILLS; kill++) {
    const before = await changed();
    await eventually(async () => expect(await changed()).toBeGreaterThan(before + 200), { withinMs: 30_000 });
    await delay(kill * 17);
    await node.kill();
    node = await startNode({ dir: dir.path, grpcPort });
  }
  expect(await run.done({ timeout: '30s' })).toMatchObject({
    state: 'done',
    changed: TASKS,
    lookedAt: TASKS,
    skipped: {},
  });
  const { totals } = await client.stats({ queues: [QUEUE, MOVED] });
  expect(totals).toMatchObject({ available: TASKS, leased: 0, delayed: 0 });
  expect((await client.queue(MOVED).stats()).available).toBe(TASKS);
});
