import { connect } from '@taskmaster/client';
import { systemTiming } from '@taskmaster/client/internal';
import { reportOf } from '../report/build-report.ts';
import { type LoadReport, reported } from '../report/load-report.ts';
import { runInstance } from '../run/run-instance.ts';
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
