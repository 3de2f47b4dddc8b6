/**
 * A queue that outgrows one node: its shards are queues in groups of their own, which a cluster spreads over its nodes. Then the
 * number of shards changes while the queue is in use. Needs a node or a cluster: `npm start`.
 *
 *     npm run example sharded [host:port]
 */
import { connect } from '@taskmaster/client';

interface Order {
  readonly id: number;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const orders = client.shardedQueue<Order>('shop#orders', { shards: 4 });
const mails = client.shardedQueue<string>('shop#mails', { shards: 4 });

// A PID decides the shard, so that each order is in the queue once.
const pidOf = (id: number): string => `order-${id}`;
await orders.enqueueMany(Array.from({ length: 20 }, (_, id) => ({ data: { id }, pid: pidOf(id) })));
console.log(`order 7 again: ${(await orders.enqueue({ id: 7 }, { pid: pidOf(7) })).result}`);
const { available, shards } = await orders.stats();
console.log(`${available} orders in ${shards.length} shards`);

// More shards from now on. A worker finds the tasks of all shards, whichever number it was started with.
const more = client.shardedQueue<Order>('shop#orders', { shards: 8 });
await more.enqueueMany(Array.from({ length: 20 }, (_, id) => ({ data: { id: 20 + id }, pid: pidOf(20 + id) })));

const { promise: allDone, resolve } = Promise.withResolvers<void>();
const done = new Set<number>();
await using worker = client.worker(
  orders,
  // The mail goes to the shard that is in one group with the order: both change, or neither.
  (task) => ({ enqueue: [mails.shardBeside(task).task(`order ${task.data.id} is on its way`, { pid: task.pid })] }),
  {
    concurrency: 10,
    onTaskCompleted: ({ data }) => {
      if (done.add(data.id).size === 40) resolve();
    },
  },
);
worker.start();
await allDone;
const { available: mailsToSend } = await mails.stats();
console.log(`${done.size} orders done, ${mailsToSend} mails to send`);
await mails.delete();
