/**
 * A task is added, leased, worked on and completed. Needs a node: `npm start`.
 *
 *     npm run example hello [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const greetings = client.queue<{ name: string }>('greetings');

await greetings.enqueue({ name: 'world' });

const [task] = await greetings.lease({ leaseDuration: '30s', wait: '5s' });
if (task) {
  console.log(`hello, ${task.data.name}`); // Nobody else gets the task meanwhile.
  await task.complete(); // Not completed within 30 s, it would be leased to somebody else.
}
