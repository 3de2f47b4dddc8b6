/**
 * A service was down, and its tasks are dead letters. An operator puts back those that may work now. Needs a node: `npm start`.
 *
 *     npm run example bulk [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const orders = client.queue<{ customer: string }>('bulk#orders');
const customers = ['ann', 'bob', 'eve'];
for (const customer of customers) {
  await orders.enqueue({ customer }, { pid: customer, retry: { maxAttempts: 1 } });
}
let isDown = true;
await using worker = client.worker(orders, ({ data: { customer } }) => {
  if (customer === 'eve') throw new Error('no such customer');
  if (isDown) throw new Error('timeout of the shop');
  console.log(`order of ${customer}`);
});
worker.start();
for (const pid of customers) await orders.waitForEnd(pid);

const timeouts = { action: 'retry', queues: 'bulk#*.dead', error: 'TIMEOUT', newerThan: '1h' } as const;
const { matched, tasks } = await client.previewBulk(timeouts);
console.log(`${matched} of ${tasks} dead letters had a timeout`);

isDown = false;
const run = await client.bulk({ ...timeouts, rate: 100 });
const progress = await run.done();
console.log(`${progress?.state}: ${progress?.changed} put back`);
for (const pid of ['ann', 'bob']) await orders.waitForEnd(pid);

// The rest goes for ever. The same id again starts nothing.
const rest = { action: 'delete', queues: 'bulk#orders.dead', id: 'clean-up' } as const;
await (await client.bulk(rest)).done();
console.log(`${(await (await client.bulk(rest)).progress())?.changed} deleted`);
console.log((await client.bulkRuns('bulk')).map(({ action }) => action).join(', '));
