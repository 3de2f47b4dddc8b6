import { connect, type TaskLogFields } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { registeredSdk } from '../client/support/recorded-telemetry.ts';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';
import { startProgram } from './programs.ts';

test('the attempt after a worker was killed belongs to the same trace', { timeout: 120_000 }, async () => {
  using spans = registeredSdk();
  await using node = await startNode();
  await using client = await connect(node.endpoint);
  const jobs = client.queue<string>('work#jobs');
  await jobs.enqueue('x', { pid: 'p', retry: { backoff: { initial: 0 } } });
  const { traceId } = spans.one('enqueue work#jobs').spanContext();
  const attempts: TaskLogFields[] = [];
  for (const attempt of [1, 2]) {
    await using worker = await startProgram('traced-worker.ts', node.endpoint, jobs.name);
    await eventually(() => expect(worker.stdout).toContain('\n'), { withinMs: 60_000 });
    attempts.push(JSON.parse(worker.stdout));
    if (attempt === 2) await eventually(async () => expect((await jobs.stats()).completed).toBe(1));
    worker.process.kill('SIGKILL');
    await worker.ended;
  }
  expect(attempts).toMatchObject([1, 2].map((attempt) => ({ task: { pid: 'p', attempt }, trace_id: traceId })));
  expect(attempts[0]?.span_id).not.toBe(attempts[1]?.span_id);
});
