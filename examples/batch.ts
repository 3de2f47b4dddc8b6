/**
 * Several tasks in one call of a handler, by key, with an outcome for each. Needs a node: `npm start`.
 *
 *     npm run example batch [host:port]
 */
import { connect, UnrecoverableError } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const rows = client.queue<{ table: string; value: number }>('shop#rows');

await rows.enqueueMany([
  { data: { table: 'orders', value: 1 }, pid: '1' },
  { data: { table: 'prices', value: 20 }, pid: '2' },
  { data: { table: 'orders', value: 3 }, pid: '3' },
  { data: { table: 'prices', value: -1 }, pid: '4' },
]);

await using worker = client.worker(
  rows,
  (tasks, { key }) => {
    console.log(`${key}: ${tasks.map(({ data }) => data.value).join(', ')}`);
    return tasks.map(({ data }) => (data.value < 0 ? new UnrecoverableError('no such price') : { result: data.value }));
  },
  { batch: { max: 100, maxWait: '100ms', by: ({ data }) => data.table } },
);
worker.start();

for (const pid of ['1', '2', '3', '4']) {
  const { outcome } = await rows.waitForEnd(pid, { timeout: '30s' });
  console.log(`${pid}: ${outcome}`);
}
await client.deadLetters('shop#rows.dead').drop();
