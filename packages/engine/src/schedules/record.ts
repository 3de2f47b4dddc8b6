import { limits, parseQueueName, type QueueName, type ScheduleSpec, StoredSchedule } from '@taskmaster/proto';
import { latin1Of } from '../domain/bytes.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { ScheduleView } from '../domain/schedules/schedule-commands.ts';
import { nextRun, nextRuns, ruleOf, type ScheduleRule } from '../domain/schedules/schedule-rule.ts';
import type { RetryPolicy, TaskState } from '../domain/task.ts';

/** A schedule without a next run is hidden until then. */
const NEVER = limits.runAtUnixMs as Instant;

const utf8 = (text: string): Pid => latin1Of(Buffer.from(text)) as Pid;

/** The PID of a schedule. */
export const keyOf = (name: string): Pid => utf8(name);
export const nameOf = (key: Pid): string => Buffer.from(key, 'latin1').toString();

/** A record with its spec, which a record always has. */
export type ScheduleRecord = StoredSchedule & { spec: ScheduleSpec };

export function decodeRecord(bytes: Uint8Array): ScheduleRecord {
  const record = StoredSchedule.decode(bytes);
  return { ...record, spec: record.spec ?? missingSpec() };
}

function missingSpec(): never {
  throw new RangeError('the record of a schedule has no spec');
}

export const encodeRecord = (record: ScheduleRecord): Uint8Array => StoredSchedule.encode(record).finish();

export const ruleOfRecord = ({ spec, anchorUnixMs }: ScheduleRecord): ScheduleRule => ruleOf(spec, anchorUnixMs);

/** Until when the record is hidden: the next run, by the system clock. */
export function hiddenUntilRun(record: ScheduleRecord): Instant {
  // A paused schedule can be changed also where its rule cannot be used.
  if (record.paused && record.pauses.length === 0) return NEVER;
  const after = afterPauses(record);
  const next = nextRun(ruleOfRecord(after), after.decidedUnixMs);
  return (next === undefined || next > lastBefore(after) ? NEVER : next) as Instant;
}

/** The record without the pauses before which all runs are decided: it goes on behind them. */
export function afterPauses(record: ScheduleRecord): ScheduleRecord {
  if (record.pauses.length === 0) return record;
  const rule = ruleOfRecord(record);
  let { decidedUnixMs, pauses } = record;
  for (let [first, ...later] = pauses; first !== undefined; [first, ...later] = later) {
    const next = nextRun(rule, decidedUnixMs);
    if (next !== undefined && next <= first.fromUnixMs) break;
    pauses = later;
    if (first.toUnixMs !== 0) decidedUnixMs = Math.max(decidedUnixMs, first.toUnixMs);
  }
  return { ...record, decidedUnixMs, pauses };
}

/** Up to when runs may be decided: to the beginning of the first pause, of the result of `afterPauses`. */
export function lastBefore({ paused, pauses: [first] }: ScheduleRecord): number {
  return first?.fromUnixMs ?? (paused ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY);
}

/** The state of a task, hidden until an instant that may be past. */
export const hiddenState = (state: TaskState, until: Instant, dataBytes: number): TaskState => ({
  ...state,
  dueAt: until,
  dataBytes,
  visibility: { kind: 'hidden', until, lease: undefined },
});

/** The PID of the task of a run: the order of time among the runs of all schedules. */
export function taskPid({ pidPrefix }: ScheduleSpec, at: number, name: string, isTriggered: boolean): Pid {
  const separator = isTriggered ? '!' : '/';
  return (latin1Of(pidPrefix) + utf8(`${new Date(at).toISOString()}${separator}${name}`)) as Pid;
}

/** The retry policy of the tasks. */
export function retryOf({ retry }: ScheduleSpec): RetryPolicy | undefined {
  return retry && { ...retry, deadLetterQueue: parseQueueName(retry.deadLetterQueue).name };
}

export function viewOf(schedule: QueueName, record: ScheduleRecord, count: number): ScheduleView {
  return { schedule, record, nextRuns: record.paused ? [] : nextRunsOf(record, count) };
}

/** None if this node cannot use the rule: the schedule can be seen, changed and deleted all the same. */
function nextRunsOf(record: ScheduleRecord, count: number): readonly number[] {
  try {
    const isPaused = (at: number): boolean =>
      record.pauses.some(({ fromUnixMs, toUnixMs }) => at > fromUnixMs && at <= toUnixMs);
    const rule = ruleOfRecord(record);
    const runs = nextRuns(rule, record.decidedUnixMs, count).filter((at) => !isPaused(at));
    const last = record.pauses.at(-1);
    if (last === undefined || runs.length === count) return runs;
    return [...runs, ...nextRuns(rule, Math.max(last.toUnixMs, runs.at(-1) ?? 0), count - runs.length)];
  } catch (error) {
    if (error instanceof Refusal) return [];
    throw error;
  }
}
