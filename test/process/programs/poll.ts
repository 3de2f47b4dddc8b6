// Waits for tasks of a queue with many long polls, and reports that they wait. Tests kill this worker.
//
//     node poll.ts <host:port> <queue> <polls>
import { connect } from '@taskmaster/client';

const [endpoint = '', queue = '', polls = '1'] = process.argv.slice(2);
const client = await connect(endpoint);
const waiting = Array.from({ length: Number(polls) }, () =>
  client.queue(queue).lease({ leaseDuration: '1h', wait: '10m' }),
);
// The node answers this call after it has read the polls before it on the same stream.
await client.queue('nothing').lease();
process.stdout.write('waiting\n');
await Promise.all(waiting);
