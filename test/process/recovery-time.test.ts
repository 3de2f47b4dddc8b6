import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { slowness } from '../support/slowness.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

test('a killed node with 50,000 tasks serves again within 3 s', { timeout: 120_000 }, async () => {
  await using dir = await temporaryDirectory();
  const TASKS = 50_000;
  {
    await using node = await startNode({ dir: dir.path });
    await using client = await connect(node.endpoint);
    const items = Array.from({ length: TASKS / 5 }, (_, number) => ({ data: { number, filler: 'x'.repeat(200) } }));
    await Promise.all(Array.from({ length: 5 }, (_, queue) => client.queue(`many#${queue}`).enqueueMany(items)));
    await client.queue('many#0').lease({ max: 1_000, leaseDuration: '1h' });
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
