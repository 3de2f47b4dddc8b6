import { connect } from '@taskmaster/client';
import { systemTiming } from '@taskmaster/client/internal';
import { type LoadReport, REPORT_FORMAT, REPORT_KIND, reported, reportedIntervals } from '../report/load-report.ts';
import { type RunOutcome, type RunSettings, runInstance } from '../run/run-instance.ts';
import type { ProcessJob, Tick } from './messages.ts';

export interface JobHooks {
  /** Ends the load early. */
  readonly signal: AbortSignal;
  readonly onStart: () => void;
  /** Called every second of the load. */
  readonly onTick: (tick: Tick) => void;
}

export interface JobResult {
  readonly report: LoadReport;
  /** Queues that could not be deleted. */
  readonly notCleaned: readonly string[];
}

const TICK_MS = 1_000;

/** Runs one instance against real nodes. */
export async function runJob(job: ProcessJob, { signal, onStart, onTick }: JobHooks): Promise<JobResult> {
  const { settings, timeoutMs, connectTimeoutMs, runId, release } = job;
  const { endpoints, tls, tokenFile, insecure, httpProxy } = job;
  let startedAt = new Date();
  let ticking: NodeJS.Timeout | undefined;
  try {
    const outcome = await runInstance(settings, {
      timing: systemTiming,
      runId,
      signal,
      open: ({ onRetry, retry }) =>
        connect({
          endpoints,
          tls,
          tokenFile,
          insecure,
          httpProxy,
          timeout: timeoutMs,
          connectTimeout: connectTimeoutMs,
          onCallRetried: onRetry,
          retry,
        }),
      onStart: (meter) => {
        startedAt = new Date();
        onStart();
        ticking = setInterval(() => onTick(reported(meter.take())), TICK_MS);
      },
    });
    return { report: reportOf(settings, outcome, release, startedAt), notCleaned: outcome.notCleaned };
  } finally {
    clearInterval(ticking);
  }
}

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
