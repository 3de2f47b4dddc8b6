/**
 * An operator limits how many tasks of a service run at once, and how many may wait. Needs a node: `npm start`.
 *
 *     npm run example limit [host:port]
 */
import { connect, TaskMasterError } from '@taskmaster/client';

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
console.log(`${available} call waits for the limit of ${heldBy[0]?.queues}`);

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

// No customer runs more than one report, or takes more than two of the three places in the queue.
const reports = client.queue<string>('crm#reports');
await reports.limit({ keys: '*', maxLeased: 1 });
await client.queueSettings.put('crm#reports', { maxBacklog: 3, maxKeyBacklog: 2 });
for (const [customer, month] of ['ann may', 'ann june', 'ann july', 'bob may', 'eve may'].map((text) =>
  text.split(' '),
)) {
  try {
    await reports.enqueue(`${month} for ${customer}`, { limitKey: customer, maxAttempts: 1 });
  } catch (error) {
    if (!(error instanceof TaskMasterError && error.reason === 'BACKLOG_FULL')) throw error;
    console.log(`${customer} comes back later: ${error.metadata.used} reports wait`);
  }
}
console.log(`now run: ${(await reports.lease({ max: 10 })).map(({ data }) => data).join(', ')}`);

// Of these only the latest ones count.
await client.queueSettings.put('crm#status', { maxKeyBacklog: 1, whenFull: 'drop-oldest' });
const status = client.queue<string>('crm#status');
for (const text of ['offline', 'online', 'busy']) await status.enqueue(text, { limitKey: 'ann' });
console.log(`ann is ${(await status.lease({ max: 10 })).map(({ data }) => data).join(', ')}`);

await reports.unlimit({ keys: '*' });
await client.queueSettings.delete('crm#reports');
await client.queueSettings.delete('crm#status');
for (const queue of [calls, exports, mails, reports, status]) await queue.delete();
