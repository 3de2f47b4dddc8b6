import type { Instant, Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { OldestTasks } from '../operations/backlog.ts';
import { type Attempt, decide } from '../operations/decide.ts';
import { DueSearches, eachDue } from '../operations/expire.ts';
import type { Queue } from '../queues/queue.ts';
import { type DueAt, dueRuns } from './due-runs.ts';
import { afterPauses, lastBefore, nameOf, ruleOfRecord, type ScheduleRecord, taskPid } from './record.ts';
import { type FoundSchedule, ScheduleDraft } from './schedule-draft.ts';

/** Schedules of one decision. */
const SCHEDULES_AT_ONCE = 128;
/** Payloads that one decision reads and writes, in bytes. A schedule and each of its runs have up to 64 KiB of data. */
const BYTES_AT_ONCE = 1024 * 1024;
/** How long one decision may block the event loop, in ms. */
const TURN_MS = 5;

/**
 * Decides the due runs of the schedules in a queue. A run is enqueued in the commit that records it as decided, so that a crash
 * neither loses nor repeats it. Runs that a limit refuses stay due; then this throws the `Refusal` when all others are decided.
 */
export async function runDue(engineState: EngineState, queue: Queue): Promise<void> {
  const wall = engineState.clock.wall() as Instant;
  let refusal: Refusal | undefined;
  await eachDue(engineState, queue, wall, async (keys) => {
    for (let left = keys; left.length > 0; ) {
      const decided = await runSome(engineState, queue, left.slice(0, SCHEDULES_AT_ONCE), wall);
      refusal ??= decided.refusal;
      // Schedules with many missed runs let the others go first.
      left = [...left.slice(decided.seen), ...decided.behind];
    }
    return refusal === undefined;
  });
  if (refusal !== undefined) throw refusal;
}

interface Decided {
  /** Number of schedules that were looked at. */
  readonly seen: number;
  /** Those of them that have more due runs. */
  readonly behind: readonly Pid[];
  /** Why runs stay due. */
  readonly refusal: Refusal | undefined;
  readonly runs: DecidedRuns;
}

/** Runs that one commit decides. */
interface DecidedRuns {
  /** Instants of those that are enqueued. */
  readonly enqueued: number[];
  missed: number;
  skipped: number;
}

/** Commits one atom, and waits until it is durable: the next one is for callers that came meanwhile. */
async function runSome(engineState: EngineState, queue: Queue, keys: readonly Pid[], wall: Instant): Promise<Decided> {
  const { clock } = engineState;
  const learnt = { searches: new DueSearches(), oldest: new OldestTasks() };
  const { result, durable } = await decide(engineState, queue.partition, (now, reads): Attempt<Decided> => {
    const runs: DecidedRuns = { enqueued: [], missed: 0, skipped: 0 };
    const behind: Pid[] = [];
    let seen = 0;
    let refusal: Refusal | undefined;
    if (queue.dropped) return { kind: 'decided', result: { seen: keys.length, behind, refusal, runs } };
    const draft = new ScheduleDraft(engineState, now, reads, learnt);
    const due = { now: wall, isTimeUp: () => clock.now() - now >= TURN_MS };
    for (const key of keys) {
      if (seen > 0 && (draft.bytes > BYTES_AT_ONCE || due.isTimeUp())) break;
      const found = draft.read(queue.ledger.name.group, key);
      const outcome = found !== undefined && isDue(found, wall) ? tryRun(draft, found, due, runs) : 'done';
      if (outcome === 'behind') behind.push(key);
      else if (outcome !== 'done') refusal ??= outcome;
      seen++;
    }
    return draft.attempt({ seen, behind, refusal, runs });
  });
  await durable;
  const { enqueued, missed, skipped } = result.runs;
  engineState.counts.runsAppeared(enqueued, clock.wall());
  engineState.counts.runsMissed += missed;
  engineState.counts.runsSkipped += skipped;
  return result;
}

/** The index of hidden records may be stale. */
const isDue = ({ task: { state } }: FoundSchedule, wall: Instant): boolean =>
  state.visibility.kind === 'hidden' && state.visibility.until <= wall;

/** As `run`. A rule that this node cannot use concerns no other schedule. */
function tryRun(...schedule: Parameters<typeof run>): ReturnType<typeof run> {
  try {
    return run(...schedule);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/**
 * Decides the due runs of a schedule. `behind`: there are more than one decision takes. A refusal: the run at which a limit is
 * reached and all later ones stay due.
 */
function run(draft: ScheduleDraft, found: FoundSchedule, at: DueAt, runs: DecidedRuns): 'done' | 'behind' | Refusal {
  const { pid: key } = found;
  const record = afterPauses(found.record);
  const { spec } = record;
  const until = { ...at, now: Math.min(at.now, lastBefore(record)) };
  const due = dueRuns(ruleOfRecord(record), spec.missedRuns, record.decidedUnixMs, until);
  const after: ScheduleRecord = { ...record, decidedUnixMs: due.decided, missed: record.missed + due.missed };
  const enqueued: number[] = [];
  const decide = (): void => {
    draft.change(found, after);
    runs.enqueued.push(...enqueued);
    runs.missed += after.missed - record.missed;
    runs.skipped += after.skipped - record.skipped;
  };
  for (const instant of due.enqueue) {
    if (spec.skipWhileRunning && draft.isRunning(after)) {
      after.skipped++;
      continue;
    }
    const pid = taskPid(spec, instant, nameOf(key), false);
    const refusal = draft.tryEnqueue(spec, pid);
    if (refusal !== undefined) {
      after.decidedUnixMs = instant - 1;
      if (after.decidedUnixMs > record.decidedUnixMs) decide();
      return refusal;
    }
    after.lastPid = Buffer.from(pid, 'latin1');
    after.lastRunUnixMs = instant;
    after.runs++;
    enqueued.push(instant);
  }
  decide();
  return due.next !== undefined && due.next <= until.now ? 'behind' : 'done';
}
