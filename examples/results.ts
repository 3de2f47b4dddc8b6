/**
 * Results of tasks, and waits for them: before and after a task has ended, and for a task that fails. Needs a node: `npm start`.
 *
 *     npm run example results [host:port]
 */
import { connect, TaskNotCompletedError, UnrecoverableError } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const invoices = client.queue<{ order: number }>('shop#invoice');

// The handler returns the result of the task.
await using worker = client.worker(
  invoices,
  async ({ data }) => {
    if (data.order === 0) throw new UnrecoverableError('no such order');
    return { result: { total: data.order * 10 } };
  },
  { results: { retention: '1m' } },
);

const { pid } = await invoices.enqueue({ order: 17 });
const waiting = invoices.waitFor<{ total: number }>(pid, { timeout: '30s' });
worker.start();
console.log(`the total is ${(await waiting)?.total}`);

const { outcome, attempts } = await invoices.waitForEnd(pid);
console.log(`${outcome} after ${attempts} attempt`);

const bad = await invoices.enqueue({ order: 0 });
try {
  await invoices.waitFor(bad.pid, { timeout: '30s' });
} catch (error) {
  if (!(error instanceof TaskNotCompletedError)) throw error;
  console.log(`${error.outcome}: ${(await invoices.waitForEnd(bad.pid)).error}`);
}
await client.deadLetters('shop#invoice.dead').drop();
