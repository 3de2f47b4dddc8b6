// A worker whose handler blocks the event loop like a long computation. Prints how each task ended.
//
//     node blocking-worker.ts <host:port> <queue> <lease in ms> <block in ms>
import { connect } from '@taskmaster/client';

const [endpoint = '', queue = '', leaseDurationMs = '', blockMs = ''] = process.argv.slice(2);
const client = await connect(endpoint);
const say = (text: string): boolean => process.stdout.write(`${text}\n`);
const nothing = new Int32Array(new SharedArrayBuffer(4));
const worker = client.worker(
  queue,
  (task) => {
    say(`began attempt ${task.attempt}`);
    Atomics.wait(nothing, 0, 0, Number(blockMs));
    say(`still leased: ${!task.signal.aborted}`);
  },
  {
    leaseDuration: Number(leaseDurationMs),
    onTaskCompleted: () => say('completed'),
    onLeaseLost: (_task, error) => say(`lost: ${error.reason}`),
    onAttemptFailed: (error) => say(`failed: ${error}`),
  },
);
await worker.run();
