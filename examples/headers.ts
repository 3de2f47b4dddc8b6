/**
 * Texts beside the data: each stage of a pipeline passes them on, and what only needs them does not look into the data. Needs a
 * node: `npm start`.
 *
 *     npm run example headers [host:port]
 */
import { bytesCodec, connect } from '@taskmaster/client';

interface Order {
  readonly number: number;
  readonly total: number;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const orders = client.queue<Order>('headers#orders');
const invoices = client.queue<string>('headers#invoices');

await orders.enqueue({ number: 1, total: 20 }, { pid: 'order-1', headers: { tenant: 'acme', trace: 'c0ffee' } });
await orders.enqueue({ number: 2, total: 7 }, { pid: 'order-2', headers: { tenant: 'globex', trace: 'facade' } });

for (const task of await orders.lease({ max: 2 })) {
  const { number, total } = task.data;
  console.log(`order ${number} of ${task.headers.tenant}`);
  const invoice = invoices.task(`${total} EUR`, { pid: task.pid, headers: task.headers });
  await task.complete({ enqueue: [invoice] });
}

// A program that counts does not know what an invoice looks like.
for (const task of await client.queue('headers#invoices', { codec: bytesCodec }).peek()) {
  const { tenant, trace } = task.headers;
  console.log(`${tenant}: ${task.bytes?.byteLength} bytes, trace ${trace}`);
}
await invoices.delete();
