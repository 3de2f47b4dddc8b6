import type { Instant } from '../domain/ids.ts';
import type { LimitRecord, LimitUse } from '../domain/queue-limits.ts';

/** A limit that is used up again within this time has been used up all the time, in ms: a slot was free for a moment only. */
const BREAK_MS = 1000;

/** A queue, as far as a limit knows it. */
export interface Limited {
  readonly ledger: { readonly available: number; readonly leased: number };
}

/** What a limit tells as its queues change. */
export interface LimitEvents<Q extends Limited> {
  now(): Instant;
  /** It allows no further lease. */
  usedUp(limit: LeaseLimit<Q>): void;
  /** It allows leases again. */
  freed(limit: LeaseLimit<Q>): void;
}

/**
 * A limit of several queues together. What they use of it follows from their ledgers: each queue tells of every change, and the
 * limit looks at its counts. So only the limit itself is on disk, and a lease that ends in any way gives its slot back.
 */
export class LeaseLimit<Q extends Limited> implements LimitUse {
  readonly record: LimitRecord;
  /** Tasks of its queues that are leased: the sum of `#leasing`. */
  leased = 0;
  usedUpSince: Instant | undefined;
  readonly #events: LimitEvents<Q>;
  /** Its queues with leased tasks, and how many each has. */
  readonly #leasing = new Map<Q, number>();
  /** Its queues with available tasks. Those of which no task was leased for the longest time come first. */
  readonly #waiting = new Set<Q>();
  #freedAt = Number.NEGATIVE_INFINITY;
  /** How long it had been used up at `#freedAt`. */
  #usedUpBefore: Instant | undefined;

  constructor(record: LimitRecord, events: LimitEvents<Q>) {
    this.record = record;
    this.#events = events;
  }

  get pattern(): string {
    return this.record.pattern;
  }

  /** How many tasks may be leased now. */
  get room(): number {
    return Math.max(0, this.record.message.maxLeased - this.leased);
  }

  /** Its queues with leased tasks. */
  get leasing(): Iterable<Q> {
    return this.#leasing.keys();
  }

  /** Its queues with available tasks, in the order of their turns. */
  get waiting(): ReadonlySet<Q> {
    return this.#waiting;
  }

  /** A queue has changed, or counts from now on. */
  note(queue: Q): void {
    const { leased, available } = queue.ledger;
    const before = this.#leasing.get(queue) ?? 0;
    this.leased += leased - before;
    if (leased === 0) this.#leasing.delete(queue);
    else if (leased !== before) this.#leasing.set(queue, leased);
    // It goes behind the queues that have waited for longer.
    if (available === 0 || leased > before) this.#waiting.delete(queue);
    if (available > 0) this.#waiting.add(queue);
    this.#settle();
  }

  /** A queue does not count any more. */
  forget(queue: Q): void {
    this.leased -= this.#leasing.get(queue) ?? 0;
    this.#leasing.delete(queue);
    this.#waiting.delete(queue);
    this.#settle();
  }

  #settle(): void {
    if (this.room === 0) {
      if (this.usedUpSince !== undefined) return;
      const now = this.#events.now();
      this.usedUpSince = now - this.#freedAt < BREAK_MS ? this.#usedUpBefore : now;
      this.#events.usedUp(this);
    } else if (this.usedUpSince !== undefined) {
      this.#usedUpBefore = this.usedUpSince;
      this.#freedAt = this.#events.now();
      this.usedUpSince = undefined;
      this.#events.freed(this);
    }
  }
}
