import type { Instant } from '@taskmaster/server/domain';
import { Refusal } from '@taskmaster/server/domain';
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
  *due(memory) {
    // Without schedules this must cost nothing.
    if (memory.schedules.size === 0 || !hasRoom(memory)) return;
    const wall = memory.clock.wall() as Instant;
    for (const queue of memory.schedules) {
      // A partition that moves is left to its next holder.
      if (isFloorPast(queue, wall) && memory.holdings.canCommit(queue.partition)) yield queue;
    }
  },
  async sweep(memory, queue) {
    if (!queue.dropped) await runDue(memory, queue);
  },
  // That this node cannot use a rule is not expected: its log says so.
  isExpected: (error) => isExpected(error) && !(error instanceof Refusal && error.reason === 'INVALID_SCHEDULE'),
};

/** On a full disk only work that ends others goes on. Runs are new work. */
const hasRoom = ({ store }: EngineState): boolean => store.state.kind !== 'full';
