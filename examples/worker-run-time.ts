// A worker that is steered while it runs: middleware around each task, another concurrency, a pause, and the end of the work.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const images = client.queue<string>('run-time#images');

let running = 0;
let most = 0;
await using worker = client
  .worker(images, async (task) => {
    if (task.data === 'broken.png' && task.attempt === 1) throw new Error('cannot be read');
    await sleep(20, undefined, { signal: task.signal });
  })
  // Runs around each call of the handler, for logs, traces or transactions.
  .use(async (task, next) => {
    most = Math.max(most, ++running);
    try {
      await next();
    } catch (error) {
      console.log(`${task.data}: ${(error as Error).message}`);
      throw error;
    } finally {
      running--;
    }
  });
worker.start();

await images.enqueueMany(['a.png', 'b.png', 'c.png', 'd.png'].map((data) => ({ data })));
await worker.untilIdle();
console.log(`at most ${most} at once`);

worker.concurrency = 4;
await images.enqueueMany(['e.png', 'f.png', 'g.png', 'h.png'].map((data) => ({ data })));
await worker.untilIdle();
console.log(`with a concurrency of 4, more than one at once: ${most > 1}`);

// Resolves when its handlers have ended. Other workers go on.
await worker.pause();
await images.enqueue('broken.png', { retry: { backoff: { initial: 0 } } });
console.log(`paused, and ${(await images.stats()).available} task waits`);
worker.resume();
await worker.untilIdle();

await worker.stop();
console.log(`done: ${(await images.stats()).completed} completed`);
