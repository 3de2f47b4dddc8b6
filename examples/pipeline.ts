/**
 * Orders are packed, then shipped: two stages with atomic steps. Needs a node: `npm start`.
 *
 *     npm run example pipeline [host:port]
 */
import { connect, pidOf } from '@taskmaster/client';

interface Order {
  readonly id: number;
  readonly item: string;
  readonly express: boolean;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');

// Queues of one group (the part before #) can change together, atomically.
const toPack = client.queue<Order>('orders#pack');
const toShip = client.queue<Order & { readonly parcel: string }>('orders#ship');

// The PID is the order in the queue and the identity of the task: express orders come first, and each order is enqueued
// once.
const orders: Order[] = [
  { id: 1, item: 'lamp', express: false },
  { id: 2, item: 'clock', express: true },
  { id: 3, item: 'chair', express: false },
  { id: 1, item: 'lamp', express: false },
];
const pidOfOrder = ({ express, id }: Order): Uint8Array => pidOf([express ? 0 : 1, id]);
for (const order of orders) {
  const { result } = await toPack.enqueue(order, { pid: pidOfOrder(order) });
  console.log(`order ${order.id}: ${result}`);
}

// The return value of the handler is enqueued in the update that completes the task. After a crash the order is in exactly
// one of the two queues.
await using packer = client.worker(toPack, ({ data, pid }) => {
  console.log(`packed order ${data.id}, ${data.item}`);
  return { enqueue: [toShip.task({ ...data, parcel: `parcel-${data.id}` }, { pid })] };
});
packer.start();

const { promise: allShipped, resolve } = Promise.withResolvers<void>();
let shipped = 0;
await using shipper = client.worker(toShip, ({ data }) => console.log(`shipped ${data.parcel}`), {
  onTaskCompleted: () => {
    if (++shipped === 3) resolve();
  },
});
shipper.start();
await allShipped;
