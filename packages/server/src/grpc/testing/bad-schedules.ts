import { limits, type MissedRuns, type Reason, type ScheduleSpec } from '@taskmaster/proto';
import type { Operations } from './bad-request.ts';
import { aRetry, aSchedule, someSchedules } from './requests.ts';

type Bad = readonly [what: string, reason: Reason, field: string, call: (node: Operations) => Promise<unknown>];

const put = (spec: Partial<ScheduleSpec>, schedule = 'shop#nightly'): Bad[3] => {
  return (node) => node.putSchedule({ schedule, spec: aSchedule(spec) });
};
const list = (change: Parameters<typeof someSchedules>[0]): Bad[3] => {
  return (node) => node.listSchedules(someSchedules(change));
};
const long = (length: number): string => 'x'.repeat(length);
const cron = (expression: string, timeZone = ''): Bad[3] => put({ cron: expression, intervalMs: 0, timeZone });

/** Requests that every transport must refuse before they reach the engine. */
export const badSchedules: readonly Bad[] = [
  ['a schedule with a negative time limit', 'INVALID_ARGUMENT', 'spec.time_limit_ms', put({ timeLimitMs: -1 })],
  [
    'a schedule with a time limit of more than a year',
    'INVALID_ARGUMENT',
    'spec.time_limit_ms',
    put({ timeLimitMs: limits.timeLimitMs + 1 }),
  ],
  ['a schedule with a negative start', 'INVALID_ARGUMENT', 'spec.start_within_ms', put({ startWithinMs: -1 })],
  [
    'a schedule with a start of more than ten years',
    'INVALID_ARGUMENT',
    'spec.start_within_ms',
    put({ startWithinMs: limits.delayMs + 1 }),
  ],
  ['a schedule without a name', 'INVALID_QUEUE', 'schedule', put({}, '')],
  ['a schedule of a group without a name', 'INVALID_QUEUE', 'schedule', put({}, 'shop#')],
  ['a schedule with a long name', 'INVALID_QUEUE', 'schedule', put({}, `shop#${long(513)}`)],
  ['a schedule with a reserved name', 'INVALID_QUEUE', 'schedule', put({}, 'shop#$taskmaster/schedules')],
  ['a put of nothing', 'EMPTY_REQUEST', 'spec', (node) => node.putSchedule({ schedule: 's', spec: undefined })],
  ['a schedule without a queue', 'INVALID_QUEUE', 'spec.queue', put({ queue: '' })],
  ['a schedule for records', 'INVALID_QUEUE', 'spec.queue', put({ queue: 'shop#$taskmaster/schedules' })],
  ['a schedule for another group', 'MIXED_GROUPS', 'spec.queue', put({ queue: 'other#mail' })],
  ['a schedule for the default group', 'MIXED_GROUPS', 'spec.queue', put({ queue: 'mail' })],
  [
    'a schedule with too much data',
    'DATA_TOO_LARGE',
    'spec.data',
    put({ data: Buffer.alloc(limits.scheduleDataBytes + 1) }),
  ],
  ['a schedule with a bad header', 'INVALID_ARGUMENT', 'spec.headers', put({ headers: { 'a b': '' } })],
  ['a long beginning of PIDs', 'INVALID_PID', 'spec.pid_prefix', put({ pidPrefix: Buffer.alloc(513) })],
  ['a schedule without a rule', 'INVALID_SCHEDULE', 'spec.cron', put({ intervalMs: 0 })],
  ['a schedule with two rules', 'INVALID_SCHEDULE', 'spec.cron', put({ cron: '* * * * *' })],
  ['an interval with a time zone', 'INVALID_SCHEDULE', 'spec.time_zone', put({ timeZone: 'UTC' })],
  ['a negative interval', 'INVALID_ARGUMENT', 'spec.interval_ms', put({ intervalMs: -1 })],
  ['an interval below 100 ms', 'INVALID_ARGUMENT', 'spec.interval_ms', put({ intervalMs: 99 })],
  [
    'an interval of more than 10 years',
    'INVALID_ARGUMENT',
    'spec.interval_ms',
    put({ intervalMs: limits.scheduleIntervalMs + 1 }),
  ],
  ['too few fields', 'INVALID_SCHEDULE', 'spec.cron', cron('* * *')],
  ['a minute that does not exist', 'INVALID_SCHEDULE', 'spec.cron', cron('60 * * * *')],
  ['a step of zero', 'INVALID_SCHEDULE', 'spec.cron', cron('*/0 * * * *')],
  ['a day that no month has', 'INVALID_SCHEDULE', 'spec.cron', cron('0 0 30 2 *')],
  ['a date instead of an expression', 'INVALID_SCHEDULE', 'spec.cron', cron('2030-01-01T00:00:00Z')],
  ['an event instead of an expression', 'INVALID_SCHEDULE', 'spec.cron', cron('@reboot')],
  ['a long expression', 'INVALID_ARGUMENT', 'spec.cron', cron(`${long(250)} * * * *`)],
  ['an unknown time zone', 'INVALID_SCHEDULE', 'spec.time_zone', cron('0 9 * * *', 'Europe/Atlantis')],
  ['a long time zone', 'INVALID_ARGUMENT', 'spec.time_zone', cron('0 9 * * *', long(257))],
  ['an unknown policy', 'INVALID_ARGUMENT', 'spec.missed_runs', put({ missedRuns: 9 as MissedRuns })],
  [
    'a schedule with negative attempts',
    'INVALID_ARGUMENT',
    'spec.retry.max_attempts',
    put({ retry: aRetry({ maxAttempts: -1 }) }),
  ],
  [
    'a schedule with dead letters in another group',
    'MIXED_GROUPS',
    'spec.retry.dead_letter_queue',
    put({ retry: aRetry({ deadLetterQueue: 'other#dead' }) }),
  ],
  [
    'a schedule with dead letters in its queue',
    'INVALID_QUEUE',
    'spec.retry.dead_letter_queue',
    put({ retry: aRetry({ deadLetterQueue: 'shop#mail' }) }),
  ],
  ['a listing of a long group', 'INVALID_QUEUE', 'group', list({ group: long(513) })],
  ['a listing of a group with a #', 'INVALID_QUEUE', 'group', list({ group: 'shop#' })],
  [
    'a listing of a schedule without a name',
    'INVALID_QUEUE',
    'schedule',
    list({ schedule: 'shop#', group: undefined }),
  ],
  ['a listing of a schedule and a group', 'INVALID_ARGUMENT', 'group', list({ schedule: 'shop#nightly' })],
  ['a listing of a negative number', 'INVALID_ARGUMENT', 'limit', list({ limit: -1 })],
  ['a listing of too many schedules', 'INVALID_ARGUMENT', 'limit', list({ limit: 1_001 })],
  ['a listing of too many runs', 'INVALID_ARGUMENT', 'next_runs', list({ nextRuns: 101 })],
  ['a page token of no listing', 'INVALID_PAGE_TOKEN', 'page_token', list({ pageToken: 'not from here!' })],
  [
    'a page token of another group',
    'INVALID_PAGE_TOKEN',
    'page_token',
    list({ pageToken: Buffer.from('other#nightly').toString('base64url') }),
  ],
  ['a delete without a name', 'INVALID_QUEUE', 'schedule', (node) => node.deleteSchedule({ schedule: '' })],
  [
    'a pause without a name',
    'INVALID_QUEUE',
    'schedule',
    (node) => node.pauseSchedule({ schedule: '#', paused: true }),
  ],
  ['a trigger without a name', 'INVALID_QUEUE', 'schedule', (node) => node.triggerSchedule({ schedule: 'shop#' })],
];
