import {
  type LoadReport,
  mergeReports,
  parseReport,
  type RunSettings,
  reportOf,
  smallRun,
} from '@taskmaster/cli/testing';
import { describe, expect, test } from 'vitest';
import { loadSetUp, toEnd } from './load-set-up.ts';

const START = new Date('2030-01-01T00:00:00Z');

/** Reports of two instances that ran together, as they are read from files. */
async function twoReports(settings: Partial<RunSettings> = {}): Promise<[LoadReport, LoadReport]> {
  const { start, timing } = loadSetUp();
  const run = async (index: number): Promise<LoadReport> => {
    const own = { ...settings, instance: { index, count: 2 } };
    return reportOf({ ...smallRun, ...own }, await start(own), '1.2.3', START);
  };
  const [first, second] = await toEnd(timing, Promise.all([run(0), run(1)]));
  return [parseReport(JSON.stringify(first)), parseReport(JSON.stringify(second))];
}

describe('joined reports', () => {
  test('have the sums of all instances, and percentiles of all calls', async () => {
    const [first, second] = await twoReports();
    const joined = mergeReports([second, first]);
    expect(joined.instances).toEqual([0, 1]);
    const [a, b, both] = [first, second, joined].map(({ total }) => total.calls.enqueue);
    expect(both?.count).toBe((a?.count ?? 0) + (b?.count ?? 0));
    expect(both?.maxMs).toBe(Math.max(a?.maxMs ?? 0, b?.maxMs ?? 0));
    expect(joined.intervals.map(({ openTasks }) => openTasks)[0]).toBe(
      (first.intervals[0]?.openTasks ?? 0) + (second.intervals[0]?.openTasks ?? 0),
    );
    const [kept, left] = [first, second].map(({ verification }) => verification);
    if (kept?.kind !== 'kept' || left?.kind !== 'kept') throw new Error('both have kept the contract');
    expect(joined.verification).toMatchObject({ kind: 'kept', tasks: kept.tasks + left.tasks });
    // Joined reports can be joined again.
    expect(mergeReports([parseReport(JSON.stringify(joined))])).toMatchObject({ instances: [0, 1] });
  });

  test('are kept only if each instance has checked its part', async () => {
    const [first, second] = await twoReports();
    const broken: LoadReport = {
      ...second,
      verification: {
        kind: 'broken',
        tasks: 1,
        calls: { succeeded: 1, refused: 0, unknown: 0 },
        tasksLeft: 0,
        mostTasksHeld: 1,
        violations: 1,
        shown: [{ message: '(a) lost', history: '' }],
      },
    };
    const failed: LoadReport = { ...second, verification: { kind: 'failed', reason: 'too late' } };
    const { verification: _none, ...unchecked } = second;
    expect(mergeReports([first, broken]).verification).toMatchObject({ kind: 'broken', violations: 1 });
    expect(mergeReports([first, failed]).verification).toMatchObject({ kind: 'failed' });
    expect(mergeReports([first, { ...unchecked, verification: undefined }]).verification?.kind).toBe('failed');
  });

  test('are of one load, with one report of each instance', async () => {
    const [first, second] = await twoReports({ verify: undefined });
    expect(() => mergeReports([first, first])).toThrow('two reports are of the same instance');
    const other = { ...second, workload: { ...second.workload, batch: 2 } };
    expect(() => mergeReports([first, other])).toThrow('the reports are of different loads');
  });
});

test.each([
  ['{', 'it is not JSON'],
  ['[]', 'it is no report of `taskmaster load`'],
  ['null', 'it is no report of `taskmaster load`'],
  ['{"kind":"taskmaster-load-report","format":99}', 'it has the format 99'],
  ['{"kind":"taskmaster-load-report","format":1,"startedAt":"now","elapsedMs":1}', "its field 'instances' is missing"],
])('a file with %s is no report', (text, message) => {
  expect(() => parseReport(text)).toThrow(message);
});
