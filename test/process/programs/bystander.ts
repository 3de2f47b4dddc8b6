// A well-behaved client: enqueues, leases and completes one task after the other. Prints the duration of each round in ms.
//
//     node bystander.ts <host:port>
import { connect } from '@taskmaster/client';

const [endpoint = ''] = process.argv.slice(2);
const client = await connect({ endpoints: endpoint, timeout: '60s' });
const jobs = client.queue('bystander');
for (;;) {
  const began = performance.now();
  await jobs.enqueue('served');
  const [task] = await jobs.lease();
  await task?.complete();
  process.stdout.write(`${(performance.now() - began).toFixed(1)}\n`);
}
