import type { Instant } from '../domain/ids.ts';
import { endsBy, isLeased, isTooLate } from '../domain/task.ts';
import type { PlannedChange } from '../planned-atom.ts';
import { Durations } from './durations.ts';
import { QueueRates } from './rates.ts';

/** Events counted since the process started, for metrics. Not durable. */
export class Counts {
  tasksEnqueued = 0;
  tasksLeased = 0;
  tasksCompleted = 0;
  leasesExpired = 0;
  /** Tasks that have not started, or got their signals, in time. */
  startsMissed = 0;
  tasksDeadLettered = 0;
  /** New and waiting tasks that went because as many waited as may. */
  tasksDropped = 0;
  attemptsFailed = 0;
  attemptsInterrupted = 0;
  readonly waited = new Durations();
  readonly worked = new Durations();
  resultsEvicted = 0;
  refills = 0;
  coldReads = 0;
  refused = 0;
  runsEnqueued = 0;
  runsMissed = 0;
  runsSkipped = 0;
  runsTriggered = 0;
  readonly #onRun: (lateMs: number) => void;

  /** `onRun`: called for each run of a schedule that was enqueued, with the time since its instant, in ms. */
  constructor(onRun: (lateMs: number) => void) {
    this.#onRun = onRun;
  }

  /** Runs of schedules were enqueued at `wall` by the system clock, later than their instants. */
  runsAppeared(instants: readonly number[], wall: number): void {
    this.runsEnqueued += instants.length;
    for (const at of instants) this.#onRun(Math.max(0, wall - at));
  }
}

/** Counts a committed change of a task, for the node and for its queue. Records are not counted. */
export function countChange(counts: Counts, { queue, change, failure, isDropped }: PlannedChange, now: Instant): void {
  if (queue.isReserved) return;
  queue.rates ??= new QueueRates();
  const { rates } = queue;
  if (change.kind === 'enqueue') {
    rates.enqueued(now);
    counts.tasksEnqueued++;
  } else if (change.kind === 'change') {
    if (isLeased(change.after) && change.after.token !== change.before.token) {
      // The clock of the node that enqueued it may have been ahead.
      const waited = Math.max(0, now - change.before.dueAt);
      rates.leased(now, waited);
      queue.leased(now, waited);
      counts.waited.count(waited);
      counts.tasksLeased++;
    }
  } else if (change.completed) {
    rates.completed(now);
    counts.tasksCompleted++;
    const { visibility } = change.before;
    if (visibility.kind === 'hidden' && visibility.lease) {
      const worked = Math.max(0, now - visibility.lease.since);
      rates.leaseLasted(worked);
      counts.worked.count(worked);
    }
  }
  if (isDropped) counts.tasksDropped++;
  else if (change.kind === 'dequeue' && !change.completed && isTooLate(change.before, now)) counts.startsMissed++;
  if (failure === undefined) return;
  if (failure === 'interrupted') {
    counts.attemptsInterrupted++;
    return;
  }
  // A task that has missed its start, or has waited too long, had no attempt.
  if (change.kind === 'enqueue' || endsBy(change.before) === undefined) {
    rates.failed(now);
    counts.attemptsFailed++;
  }
  if (failure !== 'dead') return;
  rates.deadLettered();
  counts.tasksDeadLettered++;
}
