/**
 * Enqueues a task, leases it and completes it. Needs a node: `npm start`.
 *
 *     npm run example hello [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const greetings = client.queue<{ name: string }>('greetings');

await greetings.enqueue({ name: 'world' });

const [task] = await greetings.lease({ leaseDuration: '30s', wait: '5s' });
if (task) {
  console.log(`hello, ${task.data.name}`); // No other worker gets the task meanwhile.
  await task.complete(); // Otherwise another worker may lease it after 30 s.
}
