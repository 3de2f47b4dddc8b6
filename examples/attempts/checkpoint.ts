/**
 * Long work that continues where its last attempt stopped, also after its dead-letter queue. Needs a node: `npm start`.
 *
 *     npm run example checkpoint [host:port]
 */
import { connect } from '@taskmaster/client';

interface Checkpoint {
  readonly page: number;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const exports = client.queue<{ pages: number }>('shop#exports');
const exported: number[] = [];
let isDown = true;

await using worker = client.worker(exports, async (task) => {
  const { attempt, data, previousCheckpoint } = task;
  let { page }: Checkpoint = previousCheckpoint ? JSON.parse(Buffer.from(previousCheckpoint).toString()) : { page: 0 };
  console.log(`attempt ${attempt} begins with page ${page}`);
  for (const first = page; page < data.pages; ) {
    if (isDown && page === first + 2) throw new Error('the store is down');
    exported.push(page++);
    await task.checkpoint(Buffer.from(JSON.stringify({ page } satisfies Checkpoint)));
  }
});
worker.start();

const retry = { maxAttempts: 2, backoff: { initial: 0 } };
await exports.enqueue({ pages: 7 }, { pid: '2030-01', retry });
await exports.waitForEnd('2030-01');

const dead = client.deadLetters('shop#exports.dead');
for await (const task of dead.list()) console.log(`dead letter with ${task.checkpointBytes} bytes of checkpoint`);
isDown = false;
await dead.retry();
await exports.waitForEnd('2030-01');
console.log(`${new Set(exported).size} pages exported`);
