/**
 * One task for several queues: orders are published to a topic, billing and shipping have queues that are subscribed, and a
 * filter chooses by headers. Then a task for every running worker. Needs a node: `npm start`.
 *
 *     npm run example topics [host:port]
 */
import { connect } from '@taskmaster/client';

interface Order {
  readonly number: number;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const orders = client.topic<Order>('topics#orders');
const billing = client.queue<Order>('topics#billing');
const shipping = client.queue<Order>('topics#shipping');

await orders.subscribe(billing);
await orders.subscribe(shipping, { filter: { kind: { prefix: 'goods.' } } });

for (const [number, kind] of [
  [1, 'goods.lamp'],
  [2, 'voucher'],
] as const) {
  const queues = await orders.publish({ number }, { pid: `order-${number}`, headers: { kind } });
  console.log(`order ${number}: ${queues.map(({ queue }) => queue).join(', ')}`);
}

// Each queue has its own workers.
for (const queue of [billing, shipping]) {
  for (const task of await queue.lease({ max: 10 })) {
    console.log(`${queue.name}: order ${task.data.number}`);
    await task.complete();
  }
  await orders.unsubscribe(queue);
}

// Every worker gets every change.
const changes = client.topic<string>('topics#changes');
const { promise: over, resolve: end } = Promise.withResolvers<void>();
const heard: string[] = [];
const workers = ['a', 'b'].map((instance) =>
  changes.onEveryWorker(
    (task) => {
      heard.push(`${instance} drops ${task.data}`);
      if (heard.length === 2) end();
    },
    { instance },
  ),
);
for (const worker of workers) await worker.start();
await changes.publish('prices');
await over;
for (const worker of workers) await worker.stop();
for (const line of heard.toSorted()) console.log(line);
console.log(`${(await client.subscriptions('topics')).length} subscriptions left`);
