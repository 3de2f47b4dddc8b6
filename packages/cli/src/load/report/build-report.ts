import type { RunOutcome, RunSettings } from '../run/run-instance.ts';
import { type LoadReport, REPORT_FORMAT, REPORT_KIND, reported, reportedIntervals } from './load-report.ts';

/** The report of one instance. @param startedAt by the clock of this machine. */
export function reportOf(settings: RunSettings, outcome: RunOutcome, release: string, startedAt: Date): LoadReport {
  const { meter, elapsedMs, isComplete, notStarted, verification } = outcome;
  const { timeline, longestPause } = meter;
  const { calls, retries } = reported(timeline.total());
  return {
    kind: REPORT_KIND,
    format: REPORT_FORMAT,
    release,
    startedAt: startedAt.toISOString(),
    elapsedMs,
    isComplete,
    instances: [settings.instance.index],
    workload: settings.workload,
    intervalMs: timeline.intervalMs,
    intervals: reportedIntervals(timeline),
    total: { calls, retries },
    notStarted,
    longestPause,
    kills: [],
    verification,
  };
}
