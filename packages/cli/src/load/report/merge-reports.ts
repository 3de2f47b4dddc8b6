import { isDeepStrictEqual } from 'node:util';
import type { Pause } from '../measure/pauses.ts';
import { MOST_SHOWN } from '../verify/verdict.ts';
import { type LoadReport, reported, reportedIntervals, type Verification } from './load-report.ts';
import { InvalidReportError, timelineOf } from './read-report.ts';

/** One report of several instances of one load, which started together. @throws InvalidReportError */
export function mergeReports(reports: readonly LoadReport[]): LoadReport {
  const [first, ...others] = reports;
  if (first === undefined) throw new InvalidReportError('there is no report');
  if (others.length === 0) return first;
  assertOneLoad(reports);
  const timeline = timelineOf(first);
  for (const other of others) timeline.add(timelineOf(other));
  const { calls, retries } = reported(timeline.total());
  return {
    ...first,
    startedAt: reports.map(({ startedAt }) => startedAt).toSorted()[0] ?? first.startedAt,
    elapsedMs: Math.max(...reports.map(({ elapsedMs }) => elapsedMs)),
    isComplete: reports.every(({ isComplete }) => isComplete),
    instances: reports.flatMap(({ instances }) => instances).toSorted((a, b) => a - b),
    intervalMs: timeline.intervalMs,
    intervals: reportedIntervals(timeline),
    total: { calls, retries },
    notStarted: sum(reports.map(({ notStarted }) => notStarted)),
    longestPause: longest(reports.map(({ longestPause }) => longestPause)),
    kills: reports.flatMap(({ kills }) => kills).toSorted((a, b) => a.atMs - b.atMs),
    verification: mergeVerifications(reports.map(({ verification }) => verification)),
  };
}

function assertOneLoad(reports: readonly LoadReport[]): void {
  const [first] = reports;
  if (!reports.every(({ workload }) => isDeepStrictEqual(workload, first?.workload))) {
    throw new InvalidReportError('the reports are of different loads');
  }
  const instances = reports.flatMap(({ instances: own }) => own);
  if (new Set(instances).size < instances.length) {
    throw new InvalidReportError('two reports are of the same instance');
  }
}

/** Kept only if every instance has checked its history, and all have kept the contract. */
function mergeVerifications(all: readonly (Verification | undefined)[]): Verification | undefined {
  const told = all.filter((one) => one !== undefined);
  if (told.length === 0) return undefined;
  const checked = told.filter((one) => one.kind !== 'failed');
  const failed = told.find((one) => one.kind === 'failed');
  const isBroken = checked.some(({ kind }) => kind === 'broken');
  if (!isBroken && failed !== undefined) return failed;
  if (!isBroken && told.length < all.length) return { kind: 'failed', reason: 'an instance has checked nothing' };
  return {
    kind: isBroken ? 'broken' : 'kept',
    tasks: sum(checked.map(({ tasks }) => tasks)),
    calls: {
      succeeded: sum(checked.map(({ calls }) => calls.succeeded)),
      refused: sum(checked.map(({ calls }) => calls.refused)),
      unknown: sum(checked.map(({ calls }) => calls.unknown)),
    },
    tasksLeft: sum(checked.map(({ tasksLeft }) => tasksLeft)),
    mostTasksHeld: sum(checked.map(({ mostTasksHeld }) => mostTasksHeld)),
    violations: sum(checked.map(({ violations }) => violations)),
    shown: checked.flatMap(({ shown }) => shown).slice(0, MOST_SHOWN),
  };
}

function longest(pauses: readonly (Pause | undefined)[]): Pause | undefined {
  return pauses.reduce((a, b) => ((b?.ms ?? 0) > (a?.ms ?? 0) ? b : a), undefined);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
