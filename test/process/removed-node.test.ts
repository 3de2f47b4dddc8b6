import { setTimeout as delay } from 'node:timers/promises';
import { Metadata, type ServiceError } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { partitionOf, type TaskMasterServiceClient } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { anEnqueue, anUpdate, WireClient } from '../support/wire-client.ts';

/** A pause after which a node must ask whether it is still a member. 30 for a long run. */
const STOPPED_MS = 1_000 * Number(process.env.TASKMASTER_STOP_SECONDS ?? 8);

/** Enqueues at one node, which must not forward the call. Resolves with the reason of the refusal. */
function enqueueAt(client: TaskMasterServiceClient, queue: string): Promise<string | undefined> {
  const metadata = new Metadata();
  metadata.set('taskmaster-routed', '1');
  const request = anUpdate({ enqueue: [anEnqueue({ queue })] });
  const deadline = Date.now() + 60_000;
  return new Promise((resolve) => {
    client.updateTasks(request, metadata, { deadline }, (error: ServiceError | null) => resolve(error?.details));
  });
}

test('a node that was removed while it was paused changes nothing when it continues', { timeout: 90_000 }, async () => {
  await using cluster = await TestCluster.start();
  await using client = await connect(cluster.node('a').endpoint);
  const { partitions } = await cluster.inPlace();
  const group = Array.from({ length: 1_000 }, (_, number) => `g${number}`).find((name) => {
    return partitions[partitionOf(name, PARTITIONS)]?.holder?.name === 'b';
  });
  const queue = `${group}#q`;
  await client.queue(queue).enqueue('there before');
  const b = cluster.node('b');
  using wire = new WireClient(b.endpoint);
  const stub = wire.raw;
  expect(await enqueueAt(stub, queue)).toBeUndefined();

  const before = performance.now();
  process.kill(b.pid, 'SIGSTOP');
  // They wait in the buffers of its sockets, and the node reads them when it continues.
  const sent = Array.from({ length: 20 }, () => enqueueAt(stub, queue));
  const lost = await eventually(() => client.cluster.remove('b'), { withinMs: 20_000, everyMs: 200 });
  expect(lost).toMatchObject({ removed: false });
  expect(lost.lost.map(({ id }) => id)).toContain(partitionOf(group ?? '', PARTITIONS));
  expect(await client.cluster.remove('b', { acceptLoss: true })).toMatchObject({ removed: true });
  await eventually(() => client.queue(queue).enqueue('there after'), { withinMs: 20_000 });
  await delay(Math.max(0, STOPPED_MS - (performance.now() - before)));
  process.kill(b.pid, 'SIGCONT');

  for (const refusal of await Promise.all(sent)) expect(refusal).toMatch(/removed|not hold|waits for|shutting down/);
  const redirectedAt = performance.now();
  expect((await b.process.ended).code).toBe(1);
  expect((await client.queue(queue).stats()).available).toBe(1);
  console.log(
    `removed after ${Math.round(redirectedAt - before)} ms of silence: 20 waiting requests refused, ` +
      `${lost.lost.length} partitions lost`,
  );
  expectToSayItOnce(b.process.stderr);
  // It does not start again.
  const again = await startProcess(process.execPath, [
    nodeCli,
    `--data-dir=${b.dir}`,
    '--grpc-port=0',
    '--http-port=0',
    '--gossip-port=0',
  ]);
  expect(await again.ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('removed through') });
  const tasks = await client.queue<string>(queue).lease({ max: 10 });
  expect(tasks.map(({ data }) => data)).toEqual(['there after']);
});

test('a node that was removed while it was down says so once, never becomes ready, and ends', {
  timeout: 90_000,
}, async () => {
  await using cluster = await TestCluster.start();
  await using client = await connect(cluster.node('a').endpoint);
  await cluster.inPlace();
  const b = cluster.node('b');
  await b.kill();
  await eventually(() => client.cluster.remove('b', { acceptLoss: true }), { withinMs: 20_000, everyMs: 200 });
  const back = await startProcess(process.execPath, [
    nodeCli,
    '--json',
    `--data-dir=${b.dir}`,
    '--grpc-port=0',
    '--http-port=0',
    '--gossip-port=0',
  ]);
  const { code, stdout, stderr } = await back.ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expectToSayItOnce(stderr);
});

function expectToSayItOnce(stderr: string): void {
  const lines = stderr.split('\n').filter((line) => /"level":("error"|50)|^taskmaster/.test(line));
  expect(lines).toEqual([expect.stringContaining('removed by an operator')]);
}
