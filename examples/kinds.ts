/**
 * Workers of two releases share a queue: each says which kinds of tasks it can run. Needs a node: `npm start`.
 *
 *     npm run example kinds [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const images = client.queue<string>('kinds#images');

await images.enqueue('a.png', { pid: 'a', kind: 'resize@2' });
await images.enqueue('b.png', { pid: 'b', kind: 'resize@1' });
await images.enqueue('c.png', { pid: 'c', kind: 'thumb@1' });

// A worker of the old release passes what it cannot run, whatever stands in front of it.
const old = await images.lease({ max: 9, kinds: ['resize@1'] });
for (const task of old) {
  console.log(`old: ${task.kind} of ${task.data}`);
  await task.complete();
}

// The new one can run all versions of two kinds.
const done = Promise.withResolvers<void>();
let left = 2;
await using worker = client.worker(
  images,
  async (task) => {
    console.log(`new: ${task.kind} of ${task.data}`);
  },
  {
    kinds: ['resize@*', 'thumb@*'],
    onTaskCompleted: () => {
      if (--left === 0) done.resolve();
    },
  },
);
worker.start();
await done.promise;
