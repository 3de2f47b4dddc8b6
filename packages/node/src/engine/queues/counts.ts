import { type Instant, isLeased } from '@taskmaster/server/domain';
import type { TaskChange } from '../../domain/atom.ts';
import type { Queue } from './queue.ts';
import { QueueRates } from './rates.ts';

/** Events counted since the process started, for metrics. Not durable. */
export class Counts {
  tasksEnqueued = 0;
  tasksLeased = 0;
  tasksCompleted = 0;
  leasesExpired = 0;
  tasksDeadLettered = 0;
  resultsEvicted = 0;
  refills = 0;
  coldReads = 0;
  refused = 0;
}

/** Counts a committed change of a task, for the node and for its queue. Records are not counted. */
export function countChange(counts: Counts, queue: Queue, change: TaskChange, now: Instant): void {
  if (queue.isReserved) return;
  queue.rates ??= new QueueRates();
  const { rates } = queue;
  if (change.kind === 'enqueue') {
    rates.enqueued(now);
    counts.tasksEnqueued++;
  } else if (change.kind === 'change') {
    if (isLeased(change.after) && change.after.token !== change.before.token) {
      rates.leased(now);
      counts.tasksLeased++;
    }
  } else if (change.completed) {
    rates.completed(now);
    counts.tasksCompleted++;
    const { visibility } = change.before;
    if (visibility.kind === 'hidden' && visibility.lease) rates.leaseLasted(now - visibility.lease.since);
  }
}
