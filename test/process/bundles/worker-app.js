// A program as users write it, to be bundled. Its handler runs until the lease was renewed. With `block` it then blocks the event
// loop for longer than the lease, which only a lease outlives that another thread renews.
//
//     node worker-app.js <host:port> <queue> <block | wait> [renewalThread]
import { connect } from '@taskmaster/client';

/** A machine that stands still for a few seconds must not end it. */
const LEASE_MS = 8_000;

async function main() {
  const [endpoints, queue, how, renewalThread] = process.argv.slice(2);
  const thread = renewalThread && { renewalThread: renewalThread === 'false' ? false : renewalThread };
  const client = await connect({ endpoints, ...thread });
  const say = (text) => console.log(text);
  const handled = new Promise((resolve) => {
    const handler = async (task) => {
      say(`began attempt ${task.attempt}`);
      // A renewal comes after a third of the lease.
      const renewed = task.leaseUntil.getTime() + LEASE_MS / 6;
      while (task.leaseUntil.getTime() < renewed && !task.signal.aborted)
        await new Promise((wake) => setTimeout(wake, 10));
      if (how === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1.25 * LEASE_MS);
      await new Promise((wake) => setImmediate(wake));
      say(`still leased: ${!task.signal.aborted}`);
    };
    const worker = client.worker(queue, handler, {
      leaseDuration: LEASE_MS,
      onTaskCompleted: () => resolve(say('completed')),
      onLeaseLost: (_task, error) => resolve(say(`lost: ${error.reason}`)),
      onAttemptFailed: (error) => resolve(say(`failed: ${error}`)),
    });
    worker.start();
  });
  await handled;
  await client.close();
}

void main();
