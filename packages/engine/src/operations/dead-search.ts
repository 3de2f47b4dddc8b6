import type { Clock } from '@taskmaster/server/ports';
import type { EngineState } from '../engine-state.ts';
import { showAllDue } from './expire.ts';

/** Time between two searches. The contract gives a waiting request its dead letters within a second. */
export const DEAD_SEARCH_MS = 500;
/** Queues that are searched together. */
const QUEUES_AT_ONCE = 64;

export interface DeadSearchDeps {
  /** Undefined while nothing can be written. */
  readonly memory: () => EngineState | undefined;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Moves dead tasks to their dead-letter queues in the background, because lease requests may be waiting there. Does not depend
 * on checkpoints, which may be rare or slow.
 */
export class DeadSearch {
  readonly #deps: DeadSearchDeps;

  constructor(deps: DeadSearchDeps) {
    this.#deps = deps;
  }

  /** Searches all queues that may have dead tasks now. Call it again when it has ended. */
  async look(): Promise<void> {
    const { memory: writable, clock } = this.#deps;
    // A queue whose search fails is not due again for a while.
    for (let found = QUEUES_AT_ONCE; found === QUEUES_AT_ONCE; ) {
      const memory = writable();
      if (!memory) return;
      const due = memory.lastAttempts.due(clock.now(), QUEUES_AT_ONCE);
      await showAllDue(memory, due);
      found = due.length;
    }
  }
}
