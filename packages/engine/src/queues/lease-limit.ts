import type { LeaseRate } from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import type { LimitRecord, LimitUse } from '../domain/queue-limits.ts';

/** A limit that is used up again within this time has been used up all the time, in ms: a slot was free for a moment only. */
const BREAK_MS = 1000;
const NONE: readonly never[] = [];
const NEVER = Number.MAX_SAFE_INTEGER as Instant;

/** A queue, as far as a limit knows it. */
export interface Limited {
  readonly ledger: {
    readonly available: number;
    readonly leased: number;
    /** None of its leases ends before. It only gets earlier with a change of the queue. */
    readonly dueFloor: Instant;
  };
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
  /** None of its queues has a lease that ends before. */
  #dueFloor = NEVER;
  #freedAt = Number.NEGATIVE_INFINITY;
  /** How long it had been used up at `#freedAt`. */
  #usedUpBefore: Instant | undefined;

  /** Undefined: any rate. */
  readonly #tokens: TokenBucket | undefined;

  constructor(record: LimitRecord, events: LimitEvents<Q>) {
    this.record = record;
    this.#events = events;
    const { rate } = record.message;
    this.#tokens = rate && new TokenBucket(rate, events.now());
  }

  /** Has no more tokens than the limit that it replaces. */
  replace(earlier: LeaseLimit<Q>): void {
    if (earlier.#tokens !== undefined) this.#tokens?.replace(earlier.#tokens, this.#events.now());
  }

  get pattern(): string {
    return this.record.pattern;
  }

  /** How many tasks may be leased now. */
  get room(): number {
    const { maxLeased } = this.record.message;
    const slots = maxLeased === 0 ? Number.POSITIVE_INFINITY : Math.max(0, maxLeased - this.leased);
    return this.#tokens === undefined ? slots : Math.min(slots, this.#tokens.count(this.#events.now()));
  }

  /** When it gets the token for which leases wait. It may have no slot then. */
  get refillsAt(): Instant {
    return this.#tokens?.next(this.#events.now()) ?? NEVER;
  }

  /** Its queues that may have leases that are over. Many requests ask, and it has many queues. */
  due(now: Instant): readonly Q[] {
    if (now < this.#dueFloor) return NONE;
    const due: Q[] = [];
    this.#dueFloor = NEVER;
    for (const queue of this.#leasing.keys()) {
      const { dueFloor } = queue.ledger;
      if (dueFloor < this.#dueFloor) this.#dueFloor = dueFloor;
      if (dueFloor <= now) due.push(queue);
    }
    return due;
  }

  /** Its queues with available tasks, in the order of their turns. */
  get waiting(): ReadonlySet<Q> {
    return this.#waiting;
  }

  /** A queue counts from now on. */
  add(queue: Q): void {
    this.#count(queue);
    this.settle();
  }

  /** A queue has changed. */
  note(queue: Q): void {
    const more = this.#count(queue);
    if (more > 0) this.#tokens?.take(more, this.#events.now());
    this.settle();
  }

  /** Returns how many more of its tasks are leased than before. */
  #count(queue: Q): number {
    const { leased, available, dueFloor } = queue.ledger;
    if (leased > 0 && dueFloor < this.#dueFloor) this.#dueFloor = dueFloor;
    const before = this.#leasing.get(queue) ?? 0;
    this.leased += leased - before;
    if (leased === 0) this.#leasing.delete(queue);
    else if (leased !== before) this.#leasing.set(queue, leased);
    // It goes behind the queues that have waited for longer.
    if (available === 0 || leased > before) this.#waiting.delete(queue);
    if (available > 0) this.#waiting.add(queue);
    return leased - before;
  }

  /** A queue does not count any more. */
  forget(queue: Q): void {
    this.leased -= this.#leasing.get(queue) ?? 0;
    this.#leasing.delete(queue);
    this.#waiting.delete(queue);
    this.settle();
  }

  /** Tells whether it is used up now. */
  settle(): void {
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

/**
 * Tokens, of which each lease takes one: full at first, then `tasks` more in each `perMs`, up to `burst`. Counts parts of tokens:
 * a token has `perMs` of them, so a ms adds a whole number of parts, and nothing is rounded.
 */
class TokenBucket {
  readonly #rate: LeaseRate;
  #parts: number;
  #at: Instant;

  constructor(rate: LeaseRate, now: Instant) {
    this.#rate = rate;
    this.#parts = rate.burst * rate.perMs;
    this.#at = now;
  }

  /** Whole tokens. */
  count(now: Instant): number {
    return Math.floor(this.#partsAt(now) / this.#rate.perMs);
  }

  take(tokens: number, now: Instant): void {
    this.#parts = this.#partsAt(now) - tokens * this.#rate.perMs;
    this.#at = now;
  }

  /** When it gets its first token. Undefined: it has one. */
  next(now: Instant): Instant | undefined {
    const missing = this.#rate.perMs - this.#partsAt(now);
    return missing <= 0 ? undefined : ((now + Math.ceil(missing / this.#rate.tasks)) as Instant);
  }

  replace(earlier: TokenBucket, now: Instant): void {
    const { perMs, burst } = this.#rate;
    const parts = Math.floor((earlier.#partsAt(now) / earlier.#rate.perMs) * perMs);
    this.#parts = Math.min(burst * perMs, parts);
    this.#at = now;
  }

  #partsAt(now: Instant): number {
    const { tasks, perMs, burst } = this.#rate;
    return Math.min(burst * perMs, this.#parts + (now - this.#at) * tasks);
  }
}
