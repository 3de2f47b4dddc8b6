import { type Instant, type Pid, Refusal } from '@taskmaster/server/domain';
import type { EngineState } from '../engine-state.ts';
import { type Attempt, decide } from '../operations/decide.ts';
import { eachDue } from '../operations/expire.ts';
import type { Queue } from '../queues/queue.ts';
import { dueRuns } from './due-runs.ts';
import { nameOf, ruleOfRecord, type ScheduleRecord, taskPid } from './record.ts';
import { type FoundSchedule, ScheduleDraft } from './schedule-draft.ts';

/** Schedules of one decision: a run and its record have up to 64 KiB of data each. */
const SCHEDULES_AT_ONCE = 32;

/**
 * Decides the due runs of the schedules in a queue. A run is enqueued in the commit that records it as decided, so that a crash
 * neither loses nor repeats it. Runs that a limit refuses stay due; then this throws the `Refusal` when all others are decided.
 */
export async function runDue(memory: EngineState, queue: Queue): Promise<void> {
  const wall = memory.clock.wall() as Instant;
  let refusal: Refusal | undefined;
  await eachDue(memory, queue, wall, async (keys) => {
    for (let from = 0; from < keys.length; ) {
      const decided = await runSome(memory, queue, keys.slice(from, from + SCHEDULES_AT_ONCE), wall);
      from += decided.done;
      refusal ??= decided.refusal;
    }
    return refusal === undefined;
  });
  if (refusal !== undefined) throw refusal;
}

interface Decided {
  /** Number of schedules without runs that this search can decide. */
  readonly done: number;
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

const noRuns = (): DecidedRuns => ({ enqueued: [], missed: 0, skipped: 0 });

/** Commits one atom, and waits until it is durable: the next one is for callers that came meanwhile. */
async function runSome(memory: EngineState, queue: Queue, keys: readonly Pid[], wall: Instant): Promise<Decided> {
  const { result, durable } = await decide(memory, queue.partition, (now, reads): Attempt<Decided> => {
    if (queue.dropped) return { kind: 'decided', result: { done: keys.length, refusal: undefined, runs: noRuns() } };
    const draft = new ScheduleDraft(memory, now, reads);
    const runs = noRuns();
    let done = 0;
    let refusal: Refusal | undefined;
    for (const key of keys) {
      const found = draft.read(queue, key);
      const outcome = found !== undefined && isDue(found, wall) ? tryRun(draft, found, wall, runs) : 'done';
      if (outcome === 'behind') break;
      if (outcome !== 'done') refusal ??= outcome;
      done++;
    }
    return draft.attempt({ done, refusal, runs });
  });
  await durable;
  const { enqueued, missed, skipped } = result.runs;
  memory.counts.runsAppeared(enqueued, memory.clock.wall());
  memory.counts.runsMissed += missed;
  memory.counts.runsSkipped += skipped;
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
function run(
  draft: ScheduleDraft,
  found: FoundSchedule,
  wall: Instant,
  runs: DecidedRuns,
): 'done' | 'behind' | Refusal {
  const { key, record } = found;
  const { spec } = record;
  const due = dueRuns(ruleOfRecord(record), spec.missedRuns, record.decidedUnixMs, wall);
  const after: ScheduleRecord = { ...record, decidedUnixMs: due.decided, missed: record.missed + due.missed };
  const enqueued: number[] = [];
  const decide = (): void => {
    draft.change(found, after);
    runs.enqueued.push(...enqueued);
    runs.missed += after.missed - record.missed;
    runs.skipped += after.skipped - record.skipped;
  };
  for (const at of due.enqueue) {
    if (spec.skipWhileRunning && draft.isRunning(after)) {
      after.skipped++;
      continue;
    }
    const pid = taskPid(spec, at, nameOf(key), false);
    const refusal = draft.tryEnqueue(spec, pid);
    if (refusal !== undefined) {
      after.decidedUnixMs = at - 1;
      if (after.decidedUnixMs > record.decidedUnixMs) decide();
      return refusal;
    }
    after.lastPid = Buffer.from(pid, 'latin1');
    after.lastRunUnixMs = at;
    after.runs++;
    enqueued.push(at);
  }
  decide();
  return due.next !== undefined && due.next <= wall ? 'behind' : 'done';
}
