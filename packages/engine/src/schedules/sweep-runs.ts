import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { LONG_AGO, NEVER } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { isExpected, isFloorPast } from '../operations/expire.ts';
import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { runDue } from './run-due.ts';

/**
 * Decides the due runs of schedules. It follows the system clock, as people do: `Clock.now` does not follow when it is set. A run
 * is enqueued this long after its instant at the latest.
 */
export const sweepRuns: Sweep<Queue> = {
  everyMs: 100,
  atOnce: 16,
  next: ({ schedules }) => (schedules.size === 0 ? NEVER : LONG_AGO),
  *due(engineState) {
    // Without schedules this must cost nothing.
    if (engineState.schedules.size === 0 || !hasRoom(engineState)) return;
    const wall = engineState.clock.wall() as Instant;
    for (const queue of engineState.schedules) {
      // A partition that moves is left to its next holder.
      if (isFloorPast(queue, wall) && engineState.holdings.canCommit(queue.partition)) yield queue;
    }
  },
  async sweep(engineState, queue) {
    if (!queue.dropped) await runDue(engineState, queue);
  },
  // That this node cannot use a rule is not expected: its log says so.
  isExpected: (error) => isExpected(error) && !(error instanceof Refusal && error.reason === 'INVALID_SCHEDULE'),
};

/** On a full disk only work that ends others goes on. Runs are new work. */
const hasRoom = ({ store }: EngineState): boolean => store.state.kind !== 'full';
