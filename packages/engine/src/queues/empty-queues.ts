import type { Instant } from '../domain/ids.ts';
import type { Queue } from './queue.ts';

/** Limit of the empty queues whose statistics are kept. */
const MOST_KEPT = 10_000;

/** Queues without tasks, longest empty first. */
export class EmptyQueues {
  readonly #queues = new Set<Queue>();

  /** Call this after the tasks of a queue may have changed. */
  note(queue: Queue, now: Instant): void {
    if (queue.ledger.size > 0) {
      if (queue.emptySince !== undefined) this.#queues.delete(queue);
      queue.emptySince = undefined;
    } else if (queue.emptySince === undefined) {
      queue.emptySince = now;
      this.#queues.add(queue);
    }
  }

  forget(queue: Queue): void {
    this.#queues.delete(queue);
  }

  /** Queues that have been empty for the retention, or are too many. They may be forgotten meanwhile. */
  *over(now: Instant, retentionMs: number): Generator<Queue> {
    for (const queue of this.#queues) {
      const isOver = now - (queue.emptySince ?? now) >= retentionMs;
      if (!isOver && this.#queues.size <= MOST_KEPT) return;
      yield queue;
    }
  }
}
