import { LONG_AGO } from '../domain/task.ts';
import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { mayBeDue, showAllDue } from './expire.ts';

/** The contract gives a waiting request its dead letters within a second. */
const DEAD_SWEEP_MS = 500;

/**
 * Moves dead tasks to their dead-letter queues, because lease requests may be waiting there. In queues whose events are read, it
 * ends all leases that are over. Does not depend on checkpoints, which may be rare or slow.
 */
export const sweepDead: Sweep<Queue> = {
  everyMs: DEAD_SWEEP_MS,
  atOnce: 16,
  next: ({ lastAttempts, events }) => (events.isWatching ? LONG_AGO : lastAttempts.earliest),
  *due({ lastAttempts, clock, events, hiding, holdings }) {
    const now = clock.now();
    yield* lastAttempts.due(now);
    if (!events.isWatching) return;
    for (const queue of hiding) {
      if (events.watches(queue) && mayBeDue(queue, now) && holdings.canCommit(queue.partition)) yield queue;
    }
  },
  sweep: (engineState, queue) => showAllDue(engineState, [queue]),
};
