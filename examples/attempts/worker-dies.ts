/**
 * A worker dies with tasks that it has leased ahead: only what it had begun has failed. Needs a node: `npm start`.
 *
 *     npm run example worker-dies [host:port]
 */
import { connect, pidText } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const letters = client.queue<string>('post#letters');
for (const pid of ['a', 'b', 'c']) await letters.enqueue(`to ${pid}`, { pid, retry: { backoff: { initial: 0 } } });

// It begins the first task at once and the second one later. Then it does nothing any more, as after a crash.
const [, second] = await letters.lease({ max: 3, leaseDuration: '1s', starts: { now: 1 } });
await second?.begin();

const done = Promise.withResolvers<void>();
const left = new Set(['a', 'b', 'c']);
await using worker = client.worker(letters, async (task) => {
  const [{ interruptions } = { interruptions: 0 }] = await letters.get([task.pid]);
  console.log(`${pidText(task.pid)}: attempt ${task.attempt}, ${interruptions} interruptions before`);
  left.delete(pidText(task.pid));
  if (left.size === 0) done.resolve();
});
worker.start();
await done.promise;
