import { CALL_KINDS, type CallFigures, type CallKind, type CountsByReason } from '../measure/call-figures.ts';
import type { Percentiles } from '../measure/latencies.ts';
import type { Pause } from '../measure/pauses.ts';
import type { Interval, Timeline } from '../measure/timeline.ts';
import type { Verdict } from '../verify/verdict.ts';
import type { Workload } from '../workload/settings.ts';

/** Written in every report, so that a reader knows what it reads. */
export const REPORT_KIND = 'taskmaster-load-report';
export const REPORT_FORMAT = 1;

/** The calls of one kind in a report. */
export interface ReportedCalls extends Percentiles {
  /** Successful calls. */
  readonly count: number;
  /** Their tasks. */
  readonly tasks: number;
  /** Failed calls by reason. */
  readonly errors: CountsByReason;
  /** Latencies of the successful calls in microseconds: HdrHistogram V2, compressed, base64. */
  readonly histogram: string;
}

export type CallsByKind = Readonly<Partial<Record<CallKind, ReportedCalls>>>;

export interface ReportedInterval {
  /** Its begin, in ms since the start. */
  readonly atMs: number;
  /** Tasks in the queues at its end. */
  readonly openTasks: number;
  readonly calls: CallsByKind;
  /** Failed attempts that the clients have repeated, by reason. */
  readonly retries: CountsByReason;
}

/** A run of the command that `--kill-command` gave. */
export interface Kill {
  /** Its begin and end, in ms since the start. */
  readonly atMs: number;
  readonly endedAtMs: number;
  /** `exit 0`. */
  readonly ended: string;
}

export type Verification =
  | ({ readonly kind: 'kept' | 'broken' } & Verdict)
  /** The queues could not be read at the end. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The report of one instance, or of several. */
export interface LoadReport {
  readonly kind: typeof REPORT_KIND;
  readonly format: typeof REPORT_FORMAT;
  /** Release of the program. */
  readonly release: string;
  /** ISO 8601, by the clock of the first instance. */
  readonly startedAt: string;
  /** Time from the start to the last answer. */
  readonly elapsedMs: number;
  /** False if the load was interrupted. */
  readonly isComplete: boolean;
  /** The indexes of the instances, from 0. */
  readonly instances: readonly number[];
  readonly workload: Workload;
  readonly intervalMs: number;
  readonly intervals: readonly ReportedInterval[];
  readonly total: { readonly calls: CallsByKind; readonly retries: CountsByReason };
  /** Operations of an open loop that were due and did not begin. */
  readonly notStarted: number;
  /** The longest time in which a group had updates waiting and none was answered. */
  readonly longestPause: Pause | undefined;
  readonly kills: readonly Kill[];
  /** Undefined: nothing was checked. */
  readonly verification: Verification | undefined;
}

/** The intervals of a timeline as they are reported. */
export function reportedIntervals(timeline: Timeline): ReportedInterval[] {
  return timeline.intervals.map((interval, index) => ({ atMs: index * timeline.intervalMs, ...reported(interval) }));
}

/** The figures of an interval as they are reported. */
export function reported(interval: Interval): Omit<ReportedInterval, 'atMs'> {
  const calls: Partial<Record<CallKind, ReportedCalls>> = {};
  for (const kind of CALL_KINDS) {
    const figures = interval.calls.get(kind);
    if (figures !== undefined) calls[kind] = reportedCalls(figures);
  }
  return { openTasks: interval.openTasks, calls, retries: Object.fromEntries(interval.retries) };
}

function reportedCalls({ latencies, tasks, errors }: CallFigures): ReportedCalls {
  return {
    count: latencies.count,
    tasks,
    errors: Object.fromEntries(errors),
    ...latencies.percentiles,
    histogram: latencies.encode(),
  };
}
