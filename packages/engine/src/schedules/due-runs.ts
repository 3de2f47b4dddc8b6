import { limits, MissedRuns } from '@taskmaster/proto';
import { nextRun, runSearch, runsOfInterval, type ScheduleRule } from '../domain/schedules/schedule-rule.ts';

/** Runs of one schedule that are enqueued together. */
export const RUNS_AT_ONCE = 100;

/** What to do with the runs of a schedule that are due. */
export interface DueRuns {
  /** Instants of the runs to enqueue, the oldest first. */
  readonly enqueue: readonly number[];
  /** Number of due runs that are not enqueued. */
  readonly missed: number;
  /** All runs up to this instant are decided. It never goes back, so no run is decided twice, whatever the clock does. */
  readonly decided: number;
  /** The next run. Undefined: there is none. If it is due already, there were too many runs for one decision. */
  readonly next: number | undefined;
}

/** Where a decision is made. */
export interface DueAt {
  /** All runs up to this instant are due. */
  readonly now: number;
  /** Whether to stop: a cron expression takes up to 50 µs for each run. */
  readonly isTimeUp: () => boolean;
}

/** Decides the first due runs behind those that are decided already, at least one. Changes nothing. */
export function dueRuns(
  rule: ScheduleRule,
  missedRuns: MissedRuns,
  decided: number,
  { now, isTimeUp }: DueAt,
): DueRuns {
  const first = nextRun(rule, decided);
  if (first === undefined || first > now) return { enqueue: [], missed: 0, decided, next: first };
  if (missedRuns === MissedRuns.MISSED_RUNS_ALL) {
    const isFull = (count: number): boolean => count === RUNS_AT_ONCE || isTimeUp();
    const { runs, next } = firstRuns(rule, first, now, isFull);
    return { enqueue: runs, missed: 0, decided: runs.at(-1) ?? decided, next };
  }
  const { count, last, next } = passedRuns(rule, first, now, isTimeUp);
  const isBehind = next !== undefined && next <= now;
  const isTooLate = missedRuns === MissedRuns.MISSED_RUNS_SKIP && now - last > limits.scheduleLatenessMs;
  const enqueue = isBehind || isTooLate ? [] : [last];
  return { enqueue, missed: count - enqueue.length, decided: last, next };
}

interface Runs {
  readonly runs: readonly number[];
  /** The run behind them. */
  readonly next: number | undefined;
}

/** The runs from the first one on, until `isFull` says of their number that they are enough. */
function firstRuns(rule: ScheduleRule, first: number, now: number, isFull: (count: number) => boolean): Runs {
  const runs = [first];
  let next = nextRun(rule, first);
  if (next === undefined || next > now) return { runs, next };
  const search = runSearch(rule);
  while (next !== undefined && next <= now && !isFull(runs.length)) {
    runs.push(next);
    next = search(next);
  }
  return { runs, next };
}

interface Passed {
  readonly count: number;
  readonly last: number;
  readonly next: number | undefined;
}

/** As `firstRuns`, of which only the last one matters. */
function passedRuns(rule: ScheduleRule, first: number, now: number, isTimeUp: () => boolean): Passed {
  const passed = rule.kind === 'interval' ? runsOfInterval(rule, first - 1, now) : undefined;
  if (passed !== undefined) return { ...passed, next: nextRun(rule, passed.last) };
  const { runs, next } = firstRuns(rule, first, now, isTimeUp);
  return { count: runs.length, last: runs.at(-1) ?? first, next };
}
