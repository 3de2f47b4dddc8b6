import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PaperResult, Point } from '../result.ts';
import { writeReport } from './write-report.ts';

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'taskmaster-paper-test-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const around = (median: number) => ({ median, p20: median * 0.9, p80: median * 1.1 });

function point(of: Pick<Point, 'figure' | 'series' | 'x'> & Partial<Point>, perS: number, ms: number): Point {
  const tasksPerS = { ...around(perS), mean: perS, variationPercent: 4.56 };
  return { tasksPerS, latencyMs: around(ms), refused: 0, ranDry: false, ...of };
}

function result(points: readonly Point[], quick = false): PaperResult {
  const about = { command: 'npm run bench -- paper', date: '2026-01-02T03:04:05.678Z', machine: 'a machine' };
  return {
    format: 1,
    ...about,
    minutes: 12.3,
    quick,
    seconds: 4,
    versions: { TaskMaster: '0.1.0' },
    points,
    failures: [],
  };
}

const report = () => readFile(join(dir, 'report.md'), 'utf8');

test('plots have axes, legends and all points of a figure', async () => {
  const series = ['all', 'queue', 'task', 'none'];
  const points = series.flatMap((name, i) =>
    [0.001, 1].map((x) => point({ figure: 'figure-3', series: name, x }, 1_000, 10 ** (3 - i))),
  );
  expect(await writeReport(result(points), dir)).toEqual(['report.md', 'figure-3.svg']);
  const svg = await readFile(join(dir, 'figure-3.svg'), 'utf8');
  expect(svg).toMatch(/^<svg /);
  for (const text of [
    'Latency (ms)',
    'Probability that two updates of a worker collide',
    'strictly sequential',
    '0.001',
  ]) {
    expect(svg).toContain(`>${text}<`);
  }
  expect(svg.match(/aria-roledescription="point"/g)).toHaveLength(points.length);
  expect(await report()).toContain(
    '| 0.001 | 1,000 (900 to 1,100) | 100 (90 to 110) | 10 (9 to 11) | 1 (0.9 to 1.1) |',
  );
});

test('the report shows the paper’s numbers beside ours, and leaves out figures that were not measured', async () => {
  const points = ['enqueue', 'FIFO enqueue', 'lease + dequeue'].map((operation) =>
    point({ figure: 'table-1', series: `unary: ${operation}`, x: 0 }, 16_300, 1),
  );
  await writeReport(result(points), dir);
  expect(await readdir(dir)).toEqual(['report.md']);
  expect(await report()).toContain('| enqueue | 1,630 | 13.6 % | 16,300 | 4.6 % |');
  expect(await report()).toContain('enqueues come to 10 times the paper’s rate');
  expect(await report()).not.toContain('Figure 5');
});

test('the report has a warning for a quick run, and notes about failures', async () => {
  const points = [
    point(
      { figure: 'figure-4', series: 'reads', x: 1, readsPerS: around(10), readsPer1000Tasks: 2, refused: 7 },
      100,
      1,
    ),
    point(
      { figure: 'figure-4', series: 'reads', x: 8, readsPerS: around(0), readsPer1000Tasks: 0, ranDry: true },
      100,
      1,
    ),
  ];
  await writeReport(result(points, true), dir);
  expect(await report()).toContain('Its figures say nothing');
  expect(await report()).toContain('figure-4, reads at 1: the node refused 7 calls as OVERLOADED');
  expect(await report()).toContain('figure-4, reads at 8: a worker’s queues were empty before the time was over');
});
