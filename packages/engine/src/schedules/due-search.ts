import { type Instant, Refusal, UnreadableBytesError } from '@taskmaster/server/domain';
import type { Clock } from '@taskmaster/server/ports';
import type { EngineState } from '../engine-state.ts';
import { isFloorPast } from '../operations/expire.ts';
import { StoreCorruptError } from '../ports/store.ts';
import type { Queue } from '../queues/queue.ts';
import { runDue } from './run-due.ts';

/** Time between two searches: the latest that a run is enqueued after its instant. */
export const DUE_SEARCH_MS = 100;
/** Time before the next search of a queue whose runs could not be decided: a quota is reached, or a row is damaged. */
const FAILED_GAP_MS = 1000;
/** Queues that are searched together. */
const QUEUES_AT_ONCE = 16;

export interface DueSearchDeps {
  /** Undefined while nothing can be written. */
  readonly memory: () => EngineState | undefined;
  readonly clock: Pick<Clock, 'now' | 'wall'>;
}

/**
 * Looks for due runs of schedules in the background. It follows the system clock, as people do: `Clock.now` does not follow when
 * it is set.
 */
export class DueSearch {
  readonly #deps: DueSearchDeps;
  /** Queues that are not searched until then. */
  readonly #later = new WeakMap<Queue, Instant>();

  constructor(deps: DueSearchDeps) {
    this.#deps = deps;
  }

  /** Decides all runs that are due. Call it again when it has ended. */
  async look(): Promise<void> {
    const memory = this.#deps.memory();
    // Without schedules this must cost nothing.
    if (memory === undefined || memory.schedules.size === 0 || !hasRoom(memory)) return;
    const due = this.#due(memory);
    const failures: unknown[] = [];
    const worker = async (): Promise<void> => {
      for (let queue = due.pop(); queue && this.#deps.memory() === memory; queue = due.pop()) {
        try {
          if (!queue.dropped) await runDue(memory, queue);
        } catch (error) {
          this.#later.set(queue, (this.#deps.clock.now() + FAILED_GAP_MS) as Instant);
          if (!isExpected(error)) failures.push(error);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(QUEUES_AT_ONCE, due.length) }, worker));
    if (failures.length > 0) throw failures[0];
  }

  #due(memory: EngineState): Queue[] {
    const now = this.#deps.clock.now();
    const wall = this.#deps.clock.wall() as Instant;
    const due: Queue[] = [];
    for (const queue of memory.schedules) {
      if (!isFloorPast(queue, wall) || (this.#later.get(queue) ?? 0) > now) continue;
      // A partition that moves is left to its next holder.
      if (memory.holdings.canCommit(queue.partition)) due.push(queue);
    }
    return due;
  }
}

/** On a full disk only work that ends others goes on. Runs are new work. */
const hasRoom = ({ store }: EngineState): boolean => store.state.kind !== 'full';

/**
 * The store refuses writes, a quota is reached, the partition moves, or rows are damaged, which reads report. Not expected: this
 * node cannot use a rule. Its log says so.
 */
const isExpected = (error: unknown): boolean =>
  error instanceof Refusal
    ? error.reason !== 'INVALID_SCHEDULE'
    : error instanceof StoreCorruptError || error instanceof UnreadableBytesError;
