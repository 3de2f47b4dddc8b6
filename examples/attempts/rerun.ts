/**
 * One more run for a change that comes while a worker has the task, and work that continues where it stopped. Needs a node:
 * `npm start`.
 *
 *     npm run example rerun [host:port]
 */
import { connect } from '@taskmaster/client';

interface Page {
  readonly title: string;
  readonly version: number;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const index = client.queue<Page>('wiki#index');
const change = (version: number) => index.enqueue({ title: 'home', version }, { pid: 'home', mode: 'rerun' });

await change(1);
const { promise: over, resolve: end } = Promise.withResolvers<void>();
await using worker = client.worker(
  index,
  async (task) => {
    console.log(`indexing version ${task.data.version}, from ${task.previousProgress ?? 'the start'}`);
    if (task.data.version === 1) {
      // Two changes while the page is indexed: one more run, with the latest.
      await change(2);
      console.log(`version 3: ${(await change(3)).result}`);
    } else if (task.attempt === 1) {
      await task.reportProgress('paragraph 4');
      throw new Error('out of memory');
    } else {
      end();
    }
  },
  { backoff: () => '50ms' },
);
worker.start();
await over;
await worker.stop();
console.log(`${(await index.peek()).length} tasks left`);
