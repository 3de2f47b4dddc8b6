/**
 * Tenants with many tasks do not keep the others waiting, and those with higher weights get more: in the queues of all tenants,
 * as they come, by the turns of one worker; and in one queue, by the turns of the node. Needs a node: `npm start`.
 *
 *     npm run example fair-tenants [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');

/** The queue of a tenant is in a group of its own, so that a cluster spreads the tenants. */
const queueOf = (tenant: string) => client.queue<number>(`tenant-${tenant}#reports`);
const addReports = (tenant: string, count: number) =>
  queueOf(tenant).enqueueMany(Array.from({ length: count }, (_, number) => ({ data: number })));

await addReports('busy', 100);
await addReports('ann', 5);
await addReports('gold', 10);

const WEIGHTS: Readonly<Record<string, number>> = { 'tenant-gold#reports': 2 };
const reports = client.matchingQueues<number>(
  { regex: '^tenant-.*#reports$' },
  { weight: (queue) => WEIGHTS[queue] ?? 1 },
);

const begun: string[] = [];
const { promise: allDone, resolve } = Promise.withResolvers<void>();
let completed = 0;
await using worker = client.worker(
  reports,
  async ({ queue }) => {
    begun.push(queue);
    // A tenant that comes while the worker runs.
    if (begun.length === 20) await addReports('late', 5);
  },
  {
    prefetch: 0,
    onTaskCompleted: () => {
      if (++completed === 120) resolve();
    },
  },
);
worker.start();
await allDone;
await worker.stop();

const share = (tenant: string, tasks: readonly string[]): number =>
  tasks.filter((queue) => queue === `tenant-${tenant}#reports`).length;
const first = begun.slice(0, 20);
console.log(`of the first 20: busy ${share('busy', first)}, ann ${share('ann', first)}, gold ${share('gold', first)}`);
console.log(`late: ${share('late', begun)} of 5`);

// In one queue the node takes turns among the keys of its tasks, for all workers together.
const exports = client.queue<string>('exports#all');
await client.queueSettings.put('exports#all', { fairTurns: { weights: { gold: 2 } } });
for (const [tenant, count] of [
  ['busy', 20],
  ['gold', 4],
] as const) {
  await exports.enqueueMany(Array.from({ length: count }, () => ({ data: tenant, limitKey: tenant })));
}
const exported = (await exports.lease({ max: 6 })).map(({ data }) => data);
const countOf = (tenant: string): number => exported.filter((data) => data === tenant).length;
console.log(`of the first 6 exports: busy ${countOf('busy')}, gold ${countOf('gold')}`);
