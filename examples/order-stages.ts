/**
 * A request that waits for an order through four stages. Needs a node: `npm start`.
 *
 *     npm run example order-stages [host:port]
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect, type LeasedTask } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const stages = ['check', 'pay', 'pack', 'ship'] as const;
const queues = stages.map((stage) => client.queue<{ order: number }>(`mill#${stage}`));

// Each stage gets what the one before has left, and adds its own.
const work = async (task: LeasedTask<{ order: number }>, stage: string) => {
  const [before] = await task.signals<string>();
  if (task.data.order === 13 && stage === 'pay') throw new Error('the card was refused');
  return { result: before?.data === undefined ? stage : `${before.data}, ${stage}` };
};
const workers = queues.map((queue, at) => client.worker(queue, (task) => work(task, stages[at] ?? '')));
for (const worker of workers) worker.start();

// All four tasks are enqueued at once; each but the first waits for the one before it.
const server = createServer(async (request, response) => {
  const order = Number(request.url?.slice(1));
  const flow = client.flow();
  for (const [at, queue] of queues.entries()) {
    const stage = stages[at] ?? '';
    const after = stages.slice(Math.max(0, at - 1), at);
    const pid = `order-${order}`;
    const retry = { maxAttempts: 1 };
    flow.add(stage, queue, { order }, at === 0 ? { pid, retry } : { pid, retry, after, collect: true });
  }
  const ends = await client.waitForFlow<string>(await flow.commit(), { timeout: '30s' });
  const end = ends.get('ship');
  response.statusCode = end?.outcome === 'completed' ? 200 : 500;
  response.end(end?.result ?? end?.error);
});
await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));

const { port } = server.address() as AddressInfo;
for (const order of [7, 13]) {
  const answer = await fetch(`http://127.0.0.1:${port}/${order}`);
  console.log(`order ${order}: ${answer.status} ${await answer.text()}`);
}
server.close();
for (const worker of workers) await worker.stop();
