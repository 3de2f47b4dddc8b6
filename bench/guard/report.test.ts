import { expect, test } from 'vitest';
import { type Baseline, compare } from './baseline.ts';
import { guardTable } from './report.ts';

const baseline = (fsyncs: number, cpu: number): Baseline => ({
  node: 'v24.0.0',
  rows: { B1: { counted: { fsyncs }, measured: { cpu_ratio: cpu } } },
});

test('failures are marked, but not differences that depend on the machine', () => {
  const table = guardTable(compare(baseline(1, 1.5), baseline(2, 3)));
  expect(table).toMatch(/^B1 +fsyncs +1 +2 +\+100\.0 % +worse {2}<<<$/m);
  expect(table).toMatch(/^B1 +cpu_ratio +1\.5 +3 +\+100\.0 % +worse \(depends on the machine\)$/m);
  expect(table).toContain('Figures that do not depend on the machine are worse: 1');
});

test('the report says if nothing has changed, and if the baseline should be updated', () => {
  expect(guardTable(compare(baseline(1, 1), baseline(1, 9)))).toContain('All counted figures are unchanged.');
  expect(guardTable(compare(baseline(1, 1), baseline(0.5, 1)))).toContain('guard --update');
});
