import { pidText, type ScheduleInfo } from '@taskmaster/client';
import { textOf } from '../../views/bytes-text.ts';
import { count, duration } from '../../views/format.ts';
import type { Column } from '../../views/table.ts';

/** A schedule for programs. Fields that are not set are left out. */
export function scheduleObject(schedule: ScheduleInfo): object {
  const { bytes, pidPrefix, headers, createdAt, changedAt, nextRuns, lastRun, ...rest } = schedule;
  return {
    ...rest,
    data: textOf(bytes),
    headers: Object.keys(headers).length === 0 ? undefined : headers,
    pidPrefix: pidPrefix && pidText(pidPrefix),
    createdAt: createdAt.toISOString(),
    changedAt: changedAt.toISOString(),
    nextRuns: nextRuns.map((at) => at.toISOString()),
    lastRun: lastRun && { at: lastRun.at.toISOString(), pid: pidText(lastRun.pid) },
  };
}

export function scheduleColumns(now: number): readonly Column<ScheduleInfo>[] {
  return [
    { title: 'SCHEDULE', cell: ({ name }) => name },
    { title: 'RULE', cell: ruleText },
    { title: 'QUEUE', cell: ({ queue }) => queue },
    { title: 'NEXT RUN', cell: (schedule) => nextText(schedule, now) },
    { title: 'LAST RUN', cell: ({ lastRun }) => (lastRun ? `${duration(now - lastRun.at.getTime())} ago` : '-') },
    { title: 'RUNS', align: 'right', cell: ({ counts }) => count(counts.enqueued) },
    { title: 'MISSED', align: 'right', cell: ({ counts }) => count(counts.missed) },
    { title: 'SKIPPED', align: 'right', cell: ({ counts }) => count(counts.skipped) },
    { title: 'TRIGGERED', align: 'right', cell: ({ counts }) => count(counts.triggered) },
  ];
}

/** `0 3 * * * Europe/Berlin` or `every 30s`. */
export function ruleText({ cron, timeZone, everyMs }: ScheduleInfo): string {
  return everyMs === undefined ? `${cron} ${timeZone}` : `every ${duration(everyMs)}`;
}

/** `in 3h05m`, `paused`, or `never` if no run is left. */
export function nextText({ paused, nextRuns: [next] }: ScheduleInfo, now: number): string {
  if (paused) return 'paused';
  return next === undefined ? 'never' : `in ${duration(next.getTime() - now)}`;
}
