// A worker that leases many tasks ahead of its handler, which never ends for the data `long`. It prints `began` then.
//
//     node ahead-worker.ts <host:port> <queue>
import { connect } from '@taskmaster/client';

const [endpoint = '', queue = ''] = process.argv.slice(2);
const client = await connect({ endpoints: endpoint, timeout: '60s', retry: { maxAttempts: 1_000 } });
const worker = client.worker(
  client.queue<string>(queue),
  async (task) => {
    if (task.data !== 'long') return;
    console.log('began');
    await new Promise(() => {});
  },
  { concurrency: 2, prefetch: 500, leaseDuration: '3s', wait: '2s' },
);
await worker.run();
