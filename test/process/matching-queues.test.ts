import { connect } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';

const MINUTE_MS = 60_000;
const QUIET = Array.from({ length: 20 }, (_, at) => `quiet-${at}`);

test('a worker of matching queues on three nodes serves quiet tenants beside a busy one, new ones, and those of live nodes', {
  timeout: 4 * MINUTE_MS,
}, async () => {
  await using cluster = await TestCluster.start({ nodes: 3 });
  await cluster.inPlace();
  await using client = await connect({ endpoints: cluster.node('a').endpoint, timeout: '2s' });
  await using patient = await connect({
    endpoints: cluster.node('a').endpoint,
    timeout: '60s',
    retry: { maxAttempts: 1_000 },
  });
  const enqueue = (tenant: string, count: number) =>
    patient.queue<number>(`${tenant}#jobs`).enqueueMany(Array.from({ length: count }, (_, at) => ({ data: at })));
  await enqueue('busy', 2_000);
  for (const tenant of QUIET) await enqueue(tenant, 5);

  const done: string[] = [];
  const doneOf = (tenant: string): number => done.filter((queue) => queue === `${tenant}#jobs`).length;
  await using worker = client.worker(client.matchingQueues({ regex: '#jobs$' }), ({ queue }) => void done.push(queue), {
    concurrency: 8,
    leaseDuration: '5s',
    wait: '10s',
  });
  worker.start();
  await eventually(() => expect(QUIET.filter((tenant) => doneOf(tenant) < 5)).toEqual([]), { withinMs: MINUTE_MS });
  // The quiet ones had 100 tasks in 20 queues. In fair turns the busy one had a twenty-first of the turns.
  const lastQuiet = done.findLastIndex((queue) => queue.startsWith('quiet-'));
  expect(done.slice(0, lastQuiet).filter((queue) => queue === 'busy#jobs').length).toBeLessThan(100);

  await enqueue('new', 5);
  await eventually(() => expect(doneOf('new')).toBe(5), { withinMs: MINUTE_MS });
  await eventually(() => expect(doneOf('busy')).toBe(2_000), { withinMs: MINUTE_MS });

  // Without a node the queues of the others are served, known ones and new ones.
  await cluster.node('b').kill();
  const { partitions } = await client.cluster.partitions();
  const isAlive = (tenant: string): boolean => partitions[partitionOf(tenant, partitions.length)]?.holder?.name !== 'b';
  const alive = Array.from({ length: 20 }, (_, at) => `later-${at}`).filter(isAlive);
  for (const tenant of alive) await enqueue(tenant, 2);
  await eventually(() => expect(alive.filter((tenant) => doneOf(tenant) < 2)).toEqual([]), { withinMs: MINUTE_MS });
  await cluster.start('b');
  const [waiting = ''] = Array.from({ length: 20 }, (_, at) => `later-${at}`).filter((tenant) => !isAlive(tenant));
  await enqueue(waiting, 2);
  await eventually(() => expect(doneOf(waiting)).toBe(2), { withinMs: MINUTE_MS });
});
