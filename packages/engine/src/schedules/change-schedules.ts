import {
  limits,
  PutScheduleResult,
  parseQueueName,
  type QueueName,
  ScheduleSpec,
  type StoredPause,
} from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type {
  PutScheduleCommand,
  PutScheduleOutcome,
  ScheduleView,
  TriggeredRun,
} from '../domain/schedules/schedule-commands.ts';
import { nextRun } from '../domain/schedules/schedule-rule.ts';
import type { EngineState } from '../engine-state.ts';
import { OldestTasks } from '../operations/backlog.ts';
import { type Attempt, decide } from '../operations/decide.ts';
import { DueSearches } from '../operations/expire.ts';
import type { Reads } from '../pending/reads.ts';
import { afterPauses, ruleOfRecord, type ScheduleRecord, taskPid, viewOf } from './record.ts';
import { type FoundSchedule, ScheduleDraft } from './schedule-draft.ts';

const { PUT_SCHEDULE_RESULT_CREATED, PUT_SCHEDULE_RESULT_CHANGED, PUT_SCHEDULE_RESULT_UNCHANGED } = PutScheduleResult;
const NONE = new Uint8Array(0);
/** Pauses that a record keeps while runs are held up. Further ones are joined to the last one, with the runs between. */
const MOST_PAUSES = 1_000;

/** Creates a schedule or changes it. What it has decided stays, so that no run is lost or repeated. */
export async function putSchedule(
  engineState: EngineState,
  { schedule, spec }: PutScheduleCommand,
): Promise<PutScheduleOutcome> {
  const { result, record } = await change(engineState, schedule, (draft, found) => {
    if (found !== undefined && isEqual(found.record.spec, spec)) {
      return { result: PUT_SCHEDULE_RESULT_UNCHANGED, record: found.record };
    }
    const record = found === undefined ? created(spec, draft.wall) : changed(found.record, spec, draft.wall);
    if (nextRun(ruleOfRecord(record), record.decidedUnixMs) === undefined) throw neverRuns();
    if (found === undefined && draft.count(schedule.group) >= limits.groupSchedules) throw tooMany();
    if (found === undefined) draft.add(schedule, record);
    else draft.change(found, record);
    return { result: found === undefined ? PUT_SCHEDULE_RESULT_CREATED : PUT_SCHEDULE_RESULT_CHANGED, record };
  });
  return { result, view: viewOf(schedule, record, 1) };
}

export function deleteSchedule(engineState: EngineState, schedule: QueueName): Promise<boolean> {
  return change(engineState, schedule, (draft, found) => {
    if (found !== undefined) draft.remove(found);
    return found !== undefined;
  });
}

/**
 * Pauses or resumes a schedule. It goes on with the first run after now. Runs that were due before the pause, and that a quota or
 * an outage holds up, are decided all the same.
 */
export async function pauseSchedule(
  engineState: EngineState,
  schedule: QueueName,
  paused: boolean,
): Promise<ScheduleView> {
  const record = await change(engineState, schedule, (draft, found) => {
    if (found === undefined || found.record.paused === paused) return found?.record;
    const after = paused ? pausedAt(found.record, draft.wall) : resumedAt(found.record, draft.wall);
    draft.change(found, after);
    return after;
  });
  return viewOf(schedule, record ?? notFound(schedule), 1);
}

function pausedAt(record: ScheduleRecord, wall: number): ScheduleRecord {
  const { pauses } = record;
  if (pauses.length === 0 && !hasHeldUp(record, wall)) return { ...record, paused: true };
  const pause = { fromUnixMs: Math.max(wall, pauses.at(-1)?.toUnixMs ?? 0), toUnixMs: 0 };
  return { ...record, paused: true, pauses: [...pauses, pause] };
}

/** Whether runs are due and not decided. False if this node cannot use the rule: the schedule can be paused all the same. */
function hasHeldUp(record: ScheduleRecord, wall: number): boolean {
  try {
    const next = nextRun(ruleOfRecord(record), record.decidedUnixMs);
    return next !== undefined && next <= wall;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

function resumedAt(record: ScheduleRecord, wall: number): ScheduleRecord {
  const last = record.pauses.at(-1);
  if (last?.toUnixMs !== 0) {
    return { ...record, paused: false, decidedUnixMs: Math.max(record.decidedUnixMs, wall) };
  }
  const pause = { ...last, toUnixMs: Math.max(last.fromUnixMs, wall) };
  return afterPauses({ ...record, paused: false, pauses: withPause(record, record.pauses.slice(0, -1), pause) });
}

/**
 * Adds a pause. The record stays small: a pause without a run in it is left out, and one without a run since the last pause is
 * joined to that.
 */
function withPause(record: ScheduleRecord, pauses: readonly StoredPause[], pause: StoredPause): StoredPause[] {
  const rule = ruleOfRecord(record);
  const hasRun = (from: number, to: number): boolean => (nextRun(rule, from) ?? Number.POSITIVE_INFINITY) <= to;
  if (!hasRun(pause.fromUnixMs, pause.toUnixMs)) return [...pauses];
  const last = pauses.at(-1);
  const isJoined = last !== undefined && (pauses.length >= MOST_PAUSES || !hasRun(last.toUnixMs, pause.fromUnixMs));
  return isJoined ? [...pauses.slice(0, -1), { ...last, toUnixMs: pause.toUnixMs }] : [...pauses, pause];
}

/** Enqueues an extra run now. */
export async function triggerSchedule(engineState: EngineState, schedule: QueueName): Promise<TriggeredRun> {
  const run = await change(engineState, schedule, (draft, found) => {
    if (found === undefined) return undefined;
    const { spec } = found.record;
    let at = draft.wall;
    while (draft.has(spec, taskPid(spec, at, schedule.name, true))) at++;
    const pid = taskPid(spec, at, schedule.name, true);
    const refusal = draft.tryEnqueue(spec, pid);
    if (refusal !== undefined) throw refusal;
    const triggered = found.record.triggered + 1;
    draft.change(found, { ...found.record, triggered, triggeredPid: Buffer.from(pid, 'latin1') });
    return { queue: parseQueueName(spec.queue), pid };
  });
  if (run === undefined) return notFound(schedule);
  engineState.counts.runsTriggered++;
  return run;
}

/** Decides by the present record, and resolves when the decision is durable. */
async function change<T>(
  engineState: EngineState,
  schedule: QueueName,
  plan: (draft: ScheduleDraft, found: FoundSchedule | undefined) => T,
): Promise<T> {
  const learnt = { searches: new DueSearches(), oldest: new OldestTasks() };
  const attempt = (now: Instant, reads: Reads): Attempt<T> => {
    const draft = new ScheduleDraft(engineState, now, reads, learnt);
    const found = draft.find(schedule);
    return draft.missing() ?? draft.attempt(plan(draft, found));
  };
  const { result, durable } = await decide(engineState, engineState.partitionOf(schedule.group), attempt);
  await durable;
  return result;
}

function created(spec: ScheduleSpec, wall: number): ScheduleRecord {
  const nothingYet = {
    lastRunUnixMs: 0,
    lastPid: NONE,
    triggeredPid: NONE,
    runs: 0,
    missed: 0,
    skipped: 0,
    triggered: 0,
  };
  const instants = { createdUnixMs: wall, changedUnixMs: wall, decidedUnixMs: wall, anchorUnixMs: wall };
  return { spec, paused: false, pauses: [], ...instants, ...nothingYet };
}

/** With another rule the schedule goes on with the first run after now. Runs of the old rule that are held up are given up. */
function changed(before: ScheduleRecord, spec: ScheduleSpec, wall: number): ScheduleRecord {
  const after = { ...before, spec, changedUnixMs: wall };
  const { cron, timeZone, intervalMs } = before.spec;
  if (cron === spec.cron && timeZone === spec.timeZone && intervalMs === spec.intervalMs) return after;
  const decidedUnixMs = Math.max(before.decidedUnixMs, wall);
  return { ...after, decidedUnixMs, anchorUnixMs: decidedUnixMs, pauses: [] };
}

const isEqual = (a: ScheduleSpec, b: ScheduleSpec): boolean =>
  Buffer.compare(ScheduleSpec.encode(a).finish(), ScheduleSpec.encode(b).finish()) === 0;

const tooMany = (): Refusal =>
  new Refusal('TOO_MANY_SCHEDULES', `the group has ${limits.groupSchedules} schedules: delete some`, {
    metadata: { limit: String(limits.groupSchedules) },
  });

const neverRuns = (): Refusal =>
  new Refusal('INVALID_SCHEDULE', 'spec.cron never runs after now', { metadata: { field: 'spec.cron' } });

function notFound({ group, name }: QueueName): never {
  throw new Refusal('SCHEDULE_NOT_FOUND', 'the group has no schedule with this name', {
    metadata: { group, schedule: name },
  });
}
