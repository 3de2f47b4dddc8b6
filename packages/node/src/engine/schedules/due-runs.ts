import { limits, MissedRuns } from '@taskmaster/proto';
import { nextRun, type ScheduleRule } from '@taskmaster/server/domain';

/** Runs that are decided together: a cron expression takes a tenth of a millisecond for each. */
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

/** Decides the first due runs behind those that are decided already. Changes nothing. */
export function dueRuns(rule: ScheduleRule, missedRuns: MissedRuns, decided: number, now: number): DueRuns {
  const runs: number[] = [];
  let next = nextRun(rule, decided);
  while (next !== undefined && next <= now && runs.length < RUNS_AT_ONCE) {
    runs.push(next);
    next = nextRun(rule, next);
  }
  const latest = runs.at(-1);
  if (latest === undefined) return { enqueue: [], missed: 0, decided, next };
  const isBehind = next !== undefined && next <= now;
  const enqueue = toEnqueue(runs, missedRuns, isBehind ? undefined : latest, now);
  return { enqueue, missed: runs.length - enqueue.length, decided: latest, next };
}

/** `latest`: undefined if a later run is due, too. */
function toEnqueue(
  runs: readonly number[],
  missedRuns: MissedRuns,
  latest: number | undefined,
  now: number,
): readonly number[] {
  if (missedRuns === MissedRuns.MISSED_RUNS_ALL) return runs;
  if (latest === undefined) return [];
  const isTooLate = missedRuns === MissedRuns.MISSED_RUNS_SKIP && now - latest > limits.scheduleLatenessMs;
  return isTooLate ? [] : [latest];
}
