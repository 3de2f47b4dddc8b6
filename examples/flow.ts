/**
 * Tasks that wait for others, for a signal, and for their order. Needs a node: `npm start`.
 *
 *     npm run example flow [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const cuts = client.queue<{ video: number }>('film#cuts');
const sounds = client.queue<{ video: number }>('film#sounds');
const films = client.queue<{ video: number }>('film#films');

// A film is put together after its cut and its sound are done. All three tasks are enqueued, or none.
const flow = await client
  .flow()
  .add('cut', cuts, { video: 7 })
  .add('sound', sounds, { video: 7 })
  .add('film', films, { video: 7 }, { after: ['cut', 'sound'], collect: true })
  .commit();

await using cutter = client.worker(cuts, async ({ data }) => ({ result: `cut of ${data.video}` }));
await using mixer = client.worker(sounds, async ({ data }) => ({ result: `sound of ${data.video}` }));
await using maker = client.worker(films, async (task) => {
  const parts = await task.signals<string>();
  return { result: parts.map(({ data }) => data).sort() };
});
for (const worker of [cutter, mixer, maker]) worker.start();
const ends = await client.waitForFlow(flow, { timeout: '10s' });
console.log(`film: ${ends.get('film')?.outcome}, ${JSON.stringify(ends.get('film')?.result)}`);

// A task that waits for anyone's signal. One that comes before the task is kept.
const orders = client.queue<{ order: number }>('film#orders');
await orders.signal('order-1', { id: 'payment-5', data: { paid: true } });
await orders.enqueue({ order: 1 }, { pid: 'order-1', waitsFor: { signals: 1, timeout: '1h', onTimeout: 'cancel' } });
const [order] = await orders.lease();
console.log(`order: ${JSON.stringify((await order?.signals())?.map(({ data }) => data))}`);
await order?.complete();

// Changes of one account run one after the other, in the order of their enqueues.
const changes = client.queue<string>('film#changes');
await changes.enqueueMany(['open', 'pay in', 'close'].map((data) => ({ data, orderKey: 'account-3' })));
for (let left = 3; left > 0; left--) {
  const leased = await changes.lease({ max: 10 });
  console.log(`changes: ${leased.map(({ data }) => data).join(', ')}`);
  for (const task of leased) await task.complete();
}
