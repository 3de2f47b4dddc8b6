/**
 * An operator limits how many tasks of a service run at once. Needs a node: `npm start`.
 *
 *     npm run example limit [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const calls = client.queue<number>('crm#calls');
const exports = client.queue<number>('crm#exports');
for (let number = 1; number <= 4; number++) await calls.enqueue(number, { pid: `call-${number}` });
await exports.enqueue(1, { pid: 'export-1' });

// The service behind both queues stands three requests at once, from all workers together.
await client.limitQueues('crm#*', { maxLeased: 3 });
const leased = await calls.lease({ max: 10 });
console.log(`${leased.length} of 4 calls run, and ${(await exports.lease()).length} exports`);
const { heldBy, available } = await calls.stats();
console.log(`${available} call waits for the limit of ${heldBy?.queues}`);

// A worker that waits gets the next task when a slot is free.
const next = exports.lease({ wait: '10s' });
await leased[0]?.complete();
console.log(`${(await next).length} export runs`);

await client.unlimitQueues('crm#*');
console.log(`${(await calls.lease({ max: 10 })).length} more call runs`);

// Another service allows two mails in an hour.
const mails = client.queue<number>('crm#mails');
await mails.limit({ rate: { tasks: 2, per: '1h' } });
for (let number = 1; number <= 3; number++) await mails.enqueue(number, { pid: `mail-${number}` });
console.log(
  `${(await mails.lease({ max: 10 })).length} mails are sent in this hour, ${(await mails.stats()).available} waits`,
);

await mails.unlimit();
for (const queue of [calls, exports, mails]) await queue.delete();
