import {
  cronProblem,
  isTimeZone,
  NOTHING_GIVEN,
  type PutScheduleCommand,
  type TaskHeaders,
  withHeaders,
} from '@taskmaster/engine/domain';
import {
  formatQueueName,
  limits,
  MissedRuns,
  type PutScheduleRequest,
  type QueueName,
  type RetryPolicy,
  type ScheduleSpec,
} from '@taskmaster/proto';
import {
  duration,
  excerpt,
  headers,
  type Place,
  queueName,
  refuse,
  scheduleName,
  startWithin,
  taskGiven,
  textAtMost,
} from '@taskmaster/server/requests';
import { retryLimits } from '../parse-retry.ts';

const DEFAULT_TIME_ZONE = 'UTC';

const at = (field: string): Place => ({ field: `spec.${field}` });

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parsePutSchedule({ schedule, spec }: PutScheduleRequest): PutScheduleCommand {
  const name = scheduleName(schedule);
  if (spec === undefined) return refuse('EMPTY_REQUEST', { field: 'spec' }, 'is not set');
  return { schedule: name, spec: parseSpec(spec, name.group) };
}

function parseSpec(spec: ScheduleSpec, group: string): ScheduleSpec {
  const queue = sameGroup(spec.queue, group, at('queue'));
  const { data, pidPrefix } = spec;
  const given = sorted(headers(spec.headers, at('headers')));
  const { length } = withHeaders(given, data).data;
  if (length > limits.scheduleDataBytes) {
    const problem = `has ${length} bytes with its headers: at most ${limits.scheduleDataBytes}`;
    refuse('DATA_TOO_LARGE', at('data'), problem, { value: length, limit: limits.scheduleDataBytes });
  }
  if (pidPrefix.length > limits.schedulePidPrefixBytes) {
    const problem = `has ${pidPrefix.length} bytes: at most ${limits.schedulePidPrefixBytes}`;
    refuse('INVALID_PID', at('pid_prefix'), problem, { value: pidPrefix.length, limit: limits.schedulePidPrefixBytes });
  }
  return {
    queue: formatQueueName(queue),
    data,
    headers: given,
    pidPrefix,
    skipWhileRunning: spec.skipWhileRunning,
    ...parseRule(spec),
    missedRuns: missedRuns(spec.missedRuns),
    retry: spec.retry && parseRetry(spec.retry, queue),
    ...(taskGiven(spec, at('')) ?? NOTHING_GIVEN),
    startWithinMs: startWithin(spec.startWithinMs, at('start_within_ms')),
  };
}

/** Equal headers have the same order, so that equal schedules have equal bytes. */
const sorted = (given: TaskHeaders): Record<string, string> =>
  Object.fromEntries(Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1)));

function parseRule(spec: ScheduleSpec): Pick<ScheduleSpec, 'cron' | 'timeZone' | 'intervalMs'> {
  const cron = textAtMost(spec.cron, at('cron'), limits.cronBytes);
  const isInterval = spec.intervalMs !== 0;
  if ((cron === '') !== isInterval) {
    refuse(
      'INVALID_SCHEDULE',
      at('cron'),
      isInterval ? 'is set beside interval_ms' : 'is empty, and so is interval_ms',
    );
  }
  const given = textAtMost(spec.timeZone, at('time_zone'), limits.cronBytes);
  if (isInterval) {
    if (given !== '') refuse('INVALID_SCHEDULE', at('time_zone'), 'is set beside interval_ms');
    const { minScheduleIntervalMs: min, scheduleIntervalMs: max } = limits;
    return { cron, timeZone: '', intervalMs: duration(spec.intervalMs, at('interval_ms'), min, max) };
  }
  const timeZone = given === '' ? DEFAULT_TIME_ZONE : given;
  if (!isTimeZone(timeZone)) {
    refuse('INVALID_SCHEDULE', at('time_zone'), `is ${excerpt(timeZone)}: no such time zone`, { value: timeZone });
  }
  const problem = cronProblem(cron, timeZone);
  if (problem !== undefined) {
    refuse('INVALID_SCHEDULE', at('cron'), `is ${excerpt(cron, limits.cronBytes)}: ${problem}`, { value: cron });
  }
  return { cron, timeZone, intervalMs: 0 };
}

const MISSED_RUNS: ReadonlySet<number> = new Set(Object.values(MissedRuns).filter((policy) => policy >= 0));

function missedRuns(policy: MissedRuns): MissedRuns {
  if (!MISSED_RUNS.has(policy)) {
    refuse('INVALID_ARGUMENT', at('missed_runs'), `is ${policy}: no such policy`, { value: policy });
  }
  return policy === MissedRuns.MISSED_RUNS_UNSPECIFIED ? MissedRuns.MISSED_RUNS_ONCE : policy;
}

function parseRetry(given: RetryPolicy, queue: QueueName): RetryPolicy {
  const policy = retryLimits(given, (field) => at(`retry.${field}`));
  const place = at('retry.dead_letter_queue');
  if (given.deadLetterQueue === '') return { ...policy, deadLetterQueue: '' };
  const target = sameGroup(given.deadLetterQueue, queue.group, place);
  if (target.name === queue.name) {
    refuse('INVALID_QUEUE', place, `is ${excerpt(given.deadLetterQueue)}: the queue of the schedule`);
  }
  return { ...policy, deadLetterQueue: formatQueueName(target) };
}

function sameGroup(full: string, group: string, place: Place): QueueName {
  const queue = queueName(full, place);
  if (queue.group === group) return queue;
  return refuse('MIXED_GROUPS', place, `is of the group ${excerpt(queue.group)}, the schedule of ${excerpt(group)}`, {
    group: queue.group,
    otherGroup: group,
  });
}
