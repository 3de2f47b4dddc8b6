/**
 * Tasks for later, tasks that fail, and tasks that never succeed. Needs a node: `npm start`.
 *
 *     npm run example delayed-and-retry [host:port]
 */
import { connect, type LeasedTask } from '@taskmaster/client';

interface Mail {
  readonly to: string;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const outbox = client.queue<Mail>('mail#outbox');
const undeliverable = client.queue<Mail>('mail#undeliverable');

// The node retries failed attempts: the first after up to 50 ms, then after up to twice as long, and so on. After the third
// failed attempt the task goes to the dead-letter queue, where an operator can look at it.
const retry = { maxAttempts: 3, backoff: { initial: '50ms', max: '1m' }, deadLetterQueue: undeliverable.name } as const;

await outbox.enqueue({ to: 'late@example.com' }, { delay: '300ms', retry });
await outbox.enqueue({ to: 'busy@example.com' }, { retry });
await outbox.enqueue({ to: 'nobody@example.com' }, { retry });

function send({ data, attempt }: LeasedTask<Mail>): void {
  const isDown = data.to.startsWith('nobody') || (data.to.startsWith('busy') && attempt < 3);
  if (isDown) throw new Error(`attempt ${attempt} for ${data.to} failed`);
  console.log(`attempt ${attempt} for ${data.to} succeeded`);
}

await using worker = client.worker(outbox, send, {
  onAttemptFailed: (error) => console.log(error instanceof Error ? error.message : error),
});
worker.start();

// A lease can wait for a task. Here it waits for the task in the dead-letter queue.
const [failed] = await undeliverable.lease({ wait: '10s' });
console.log(`gave up ${failed?.data.to}`);
await failed?.complete();

for (;;) {
  const { available, leased, delayed } = await outbox.stats();
  if (available + leased + delayed === 0) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log('the outbox is empty');
