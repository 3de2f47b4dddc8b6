import { MissedRuns as WireMissedRuns, type Schedule as WireSchedule } from '@taskmaster/proto';
import { brokenReply } from '../transport/wire-errors.ts';
import type { Pid, PidLike } from '../values/pid.ts';
import { type GivenFields, givenFields } from './given-fields.ts';
import type { TaskHeaders } from './new-task.ts';
import type { TaskRetryPolicy } from './task-info.ts';

/** What a schedule does about missed runs. */
export type MissedRuns = 'skip' | 'once' | 'all';

/** A schedule, and what it has done. Times are by the system clock of the node. */
export interface ScheduleInfo extends GivenFields {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly queue: string;
  /** The payload of each task. */
  readonly bytes: Uint8Array;
  /** The headers of each task. */
  readonly headers: TaskHeaders;
  readonly retry: TaskRetryPolicy | undefined;
  readonly cron: string | undefined;
  readonly timeZone: string | undefined;
  /** Time between two runs, in ms. */
  readonly everyMs: number | undefined;
  readonly missedRuns: MissedRuns;
  readonly skipWhileRunning: boolean;
  readonly pidPrefix: Pid | undefined;
  /** How long after its enqueue a task may start, in ms. Undefined: whenever. */
  readonly startWithinMs: number | undefined;
  readonly paused: boolean;
  readonly createdAt: Date;
  readonly changedAt: Date;
  /** Empty if it is paused, or if it has no more runs. */
  readonly nextRuns: readonly Date[];
  /** The last run that was enqueued and not triggered. */
  readonly lastRun: { readonly at: Date; readonly pid: Pid } | undefined;
  /** Numbers of runs: enqueued, missed, skipped because an earlier one was in the queue, and triggered. */
  readonly counts: {
    readonly enqueued: number;
    readonly missed: number;
    readonly skipped: number;
    readonly triggered: number;
  };
}

const missedRuns: Readonly<Record<number, MissedRuns>> = {
  [WireMissedRuns.MISSED_RUNS_SKIP]: 'skip',
  [WireMissedRuns.MISSED_RUNS_ALL]: 'all',
};

export function scheduleInfo(info: WireSchedule): ScheduleInfo {
  const { spec } = info;
  if (spec === undefined) throw brokenReply('left out what the schedule does');
  return {
    name: info.schedule,
    queue: spec.queue,
    bytes: spec.data,
    headers: spec.headers,
    retry: spec.retry,
    ...givenFields(spec),
    cron: spec.cron === '' ? undefined : spec.cron,
    timeZone: spec.timeZone === '' ? undefined : spec.timeZone,
    everyMs: spec.intervalMs === 0 ? undefined : spec.intervalMs,
    missedRuns: missedRuns[spec.missedRuns] ?? 'once',
    skipWhileRunning: spec.skipWhileRunning,
    pidPrefix: spec.pidPrefix.byteLength === 0 ? undefined : spec.pidPrefix,
    startWithinMs: spec.startWithinMs || undefined,
    paused: info.paused,
    createdAt: new Date(info.createdUnixMs),
    changedAt: new Date(info.changedUnixMs),
    nextRuns: info.nextRunsUnixMs.map((at) => new Date(at)),
    lastRun: info.lastRunUnixMs === 0 ? undefined : { at: new Date(info.lastRunUnixMs), pid: info.lastPid },
    counts: { enqueued: info.runs, missed: info.missed, skipped: info.skipped, triggered: info.triggered },
  };
}

/** A run of a schedule, as the PID of its task tells it. */
export interface ScheduledRun {
  /** Name of the schedule within its group. */
  readonly schedule: string;
  /** The instant of the run, or of the trigger. A handler may start later. */
  readonly at: Date;
  readonly isTriggered: boolean;
}

const RUN = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)([/!])(.+)$/s;

/** The run whose task has this PID. Undefined: no schedule has enqueued it. */
export function scheduledRun(pid: PidLike): ScheduledRun | undefined {
  const [, at = '', separator, schedule = ''] = RUN.exec(Buffer.from(pid).toString()) ?? [];
  return separator === undefined ? undefined : { schedule, at: new Date(at), isTriggered: separator === '!' };
}
