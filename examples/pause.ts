/**
 * An operator pauses queues of a service, and the worker waits. Needs a node: `npm start`.
 *
 *     npm run example pause [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const mails = client.queue<{ to: string }>('post#mails');
await using worker = client.worker(mails, (task) => console.log(`sent to ${task.data.to}`));
worker.start();

await mails.pause({ reason: 'mail server is down', for: '1h' });
await mails.enqueue({ to: 'ann@example.com' }, { pid: 'ann' });
const { pause, available } = await mails.stats();
console.log(`${available} task waits: ${pause?.reason}`);

// A pause of the whole group has no effect on when the first one ends. Queues that come later are paused, too.
await client.pauseQueues('post#*');
const { stillPausedBy } = await mails.resume();
console.log(`still paused by ${stillPausedBy.map(({ queues }) => queues)}`);
await client.queue('post#letters').enqueue('hello', { pid: 'bob' });
console.log(`letters: ${(await client.queue('post#letters').lease()).length} leased`);

await client.resumeQueues('post#*');
await mails.waitFor('ann');
console.log(`letters: ${(await client.queue('post#letters').lease({ wait: '1s' })).length} leased`);
await client.queue('post#letters').delete();
