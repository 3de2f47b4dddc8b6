import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { showAllDue } from './expire.ts';

/** The contract gives a waiting request its dead letters within a second. */
const DEAD_SWEEP_MS = 500;

/**
 * Moves dead tasks to their dead-letter queues, because lease requests may be waiting there. Does not depend on checkpoints,
 * which may be rare or slow.
 */
export const sweepDead: Sweep<Queue> = {
  everyMs: DEAD_SWEEP_MS,
  atOnce: 16,
  due: ({ lastAttempts, clock }) => lastAttempts.due(clock.now()),
  sweep: (engineState, queue) => showAllDue(engineState, [queue]),
};
