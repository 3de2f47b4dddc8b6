// Waits for tasks of a queue with many long polls, and says so: a worker to be killed.
//
//     node poll.ts <host:port> <queue> <polls>
import { connect } from '@taskmaster/client';

const [endpoint = '', queue = '', polls = '1'] = process.argv.slice(2);
const client = await connect(endpoint);
const waiting = Array.from({ length: Number(polls) }, () =>
  client.queue(queue).lease({ leaseDuration: '1h', wait: '10m' }),
);
// Answered only after the polls before it on the same stream were read.
await client.queue('nothing').lease();
process.stdout.write('waiting\n');
await Promise.all(waiting);
