// A program as users write it, to be bundled, whose handler runs in a thread.
//
//     node thread-app.js <host:port> <queue>
import { extname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { connect } from '@taskmaster/client';

async function main() {
  const [endpoints, queue] = process.argv.slice(2);
  const client = await connect({ endpoints });
  const self = pathToFileURL(process.argv[1]);
  const worker = client.worker(queue, new URL(`./thread-handler${extname(process.argv[1])}`, self), {
    onTaskCompleted: () => console.log('completed'),
    onAttemptFailed: (error) => console.log(`failed: ${error}`),
  });
  worker.start();
  await worker.untilIdle();
  await client.close();
}

void main();
