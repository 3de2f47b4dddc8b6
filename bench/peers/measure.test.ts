import { expect, test } from 'vitest';
import { type Run, summarize } from './measure.ts';

const run = (peer: string, tasks: number, p50Ms: number | undefined, more: Partial<Run> = {}): Run => ({
  peer,
  workload: 'enqueue-single',
  versions: '1.0',
  load: 0.5,
  how: 'add',
  confirmed: true,
  tasks,
  lateTasks: 500,
  elapsedMs: 2_000,
  p50Ms,
  p99Ms: undefined,
  generatorCpuMs: 0,
  beganUs: 0,
  endedUs: 0,
  ...more,
});

test('the rounds of a peer and a workload give one result with medians', () => {
  const runs = [run('a', 20_000, 3), run('b', 8_000, undefined), run('a', 60_000, 1), run('a', 30_000, 2)];
  expect(summarize(runs)).toMatchObject([
    { peer: 'a', tasksPerS: 15_000, p50Ms: 2, p99Ms: undefined, all: [10_000, 30_000, 15_000] },
    { peer: 'b', tasksPerS: 4_000, p50Ms: undefined, all: [4_000] },
  ]);
});

test('a workload of latencies has no rate', () => {
  const [result] = summarize([run('a', 200, 0.3, { workload: 'enqueue-to-waiting' })]);
  expect(result).toMatchObject({ tasksPerS: undefined, p50Ms: 0.3, all: [0.3] });
});

test('a result of memory has the number of tasks', () => {
  const [result] = summarize([run('a', 1_000_000, undefined, { workload: 'memory-1m', memoryMib: 512 })]);
  expect(result?.more).toEqual({ tasks: 1_000_000, memory_mib: 512 });
});
