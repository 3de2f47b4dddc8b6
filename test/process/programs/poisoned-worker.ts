// A worker that one task kills, like a task that makes its process run out of memory.
//
//     node poisoned-worker.ts <host:port> <queue>
import { connect } from '@taskmaster/client';

const [endpoint = '', queue = ''] = process.argv.slice(2);
const client = await connect({ endpoints: endpoint, timeout: '60s', retry: { maxAttempts: 1_000 } });
const worker = client.worker(
  client.queue<string>(queue),
  (task) => {
    if (task.data === 'poison') process.kill(process.pid, 'SIGKILL');
  },
  { concurrency: 4, leaseDuration: '1s', wait: '2s' },
);
await worker.run();
