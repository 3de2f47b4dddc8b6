/**
 * A service declares the settings of its queues when it starts. They apply to all tasks that say nothing themselves. Needs a
 * node: `npm start`.
 *
 *     npm run example queue-settings [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const { queueSettings } = client;

// The same settings at each start change nothing.
await queueSettings.put('billing#*', { retry: { maxAttempts: 5 }, deadLetterQueue: 'billing#failed' });
await queueSettings.put('billing#invoices', { retry: { maxAttempts: 3, backoff: { initial: 5, max: 20 } } });

const invoices = client.queue<{ customer: string }>('billing#invoices');
await invoices.enqueue({ customer: 'poison' }, { pid: 'poison' });
await invoices.enqueue({ customer: 'ann' }, { pid: 'ann' });

const { promise: over, resolve: end } = Promise.withResolvers<void>();
await using worker = client.worker(invoices, (task) => {
  const { customer } = task.data;
  if (customer !== 'poison') return console.log(`invoice for ${customer}`);
  console.log(`attempt ${task.attempt} of ${task.maxAttempts} for ${customer}`);
  if (task.attempt === task.maxAttempts) setImmediate(end);
  throw new Error('no such customer');
});
worker.start();
await over;
await worker.stop();

for await (const { pid, failures } of client.deadLetters('billing#failed').list()) {
  console.log(`failed: ${Buffer.from(pid).toString()}, ${failures.at(-1)?.error?.message}`);
}
const { retry, deadLetterQueue } = await queueSettings.of('billing#receipts');
console.log(`receipts have ${retry?.maxAttempts} attempts, then go to ${deadLetterQueue}`);
await queueSettings.delete('billing#*');
console.log(`${(await queueSettings.list('billing')).map(({ queues }) => queues)} has settings`);
