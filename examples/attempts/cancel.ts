/**
 * Tasks that are cancelled while they wait and while they run. Needs a node: `npm start`.
 *
 *     npm run example cancel [host:port]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, TaskCancelledError } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const exports = client.queue<{ pages: number }>('shop#exports');

await exports.enqueue({ pages: 3 }, { pid: 'waiting' });
await exports.cancel('waiting');
console.log(`the task that waited: ${(await exports.waitForEnd('waiting')).outcome}`);

const running = Promise.withResolvers<void>();
await using worker = client.worker(exports, async ({ pid, signal }) => {
  console.log(`${pid}: working`);
  running.resolve();
  try {
    await sleep(60_000, undefined, { signal });
  } catch {
    if (signal.reason instanceof TaskCancelledError) console.log(`${pid}: stopping, ${signal.reason.cancelReason}`);
    signal.throwIfAborted();
  }
});
worker.start();

await exports.enqueue({ pages: 1_000 }, { pid: 'long' });
await running.promise;
await exports.cancel('long', { reason: 'the customer has left' });
const { outcome, attempts } = await exports.waitForEnd('long');
console.log(`long: ${outcome} after ${attempts} attempt`);
