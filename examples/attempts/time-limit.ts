/**
 * Limits how long an attempt may take. The handler of one task stops when it is told, that of another one hangs. Needs a node:
 * `npm start`.
 *
 *     npm run example time-limit [host:port]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, TimeLimitError } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const pages = client.queue<{ hangs: boolean }>('crawl#pages');

// Three quick attempts at tasks that say nothing else.
await client.queueSettings.put('crawl#*', { timeLimit: '1s', retry: { maxAttempts: 3, backoff: { initial: 0 } } });

await using worker = client.worker(
  pages,
  async ({ pid, attempt, timeLimitMs, data, signal }) => {
    console.log(`${pid}: attempt ${attempt}, at most ${timeLimitMs} ms`);
    // A handler that ignores its signal keeps its task from no other attempt.
    if (data.hangs && attempt === 1) await sleep(2_000);
    else if (attempt < 3) await sleep(60_000, undefined, { signal });
  },
  {
    concurrency: 2,
    onAttemptFailed: (error, task) => {
      if (error instanceof TimeLimitError) console.log(`${task?.pid}: ${error.message}`);
    },
    onTaskCompleted: ({ pid, attempt }) => console.log(`${pid}: done in attempt ${attempt}`),
  },
);
worker.start();

await pages.enqueue({ hangs: false }, { pid: 'slow', timeLimit: '300ms' });
await pages.waitForEnd('slow');
await pages.enqueue({ hangs: true }, { pid: 'hanging' });
await pages.waitForEnd('hanging');
