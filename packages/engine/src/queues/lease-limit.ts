import type { Instant } from '../domain/ids.ts';
import type { HeldKey, LimitRecord, LimitUse } from '../domain/queue-limits.ts';
import { KeyUses } from './lanes/key-uses.ts';
import { TokenBucket } from './lanes/token-bucket.ts';

/** A limit that is used up again within this time has been used up all the time, in ms: a slot was free for a moment only. */
const BREAK_MS = 1000;
const NONE: readonly never[] = [];
/** What a limit of no keys holds back of them. */
export const NONE_HELD = { heldKeys: NONE, heldKeyCount: 0, heldTasks: 0 };
const NEVER = Number.MAX_SAFE_INTEGER as Instant;

/** A queue, as far as a limit knows it. */
export interface Limited {
  readonly ledger: {
    readonly available: number;
    readonly leased: number;
    readonly keyed: number;
    /** None of its leases ends before. It only gets earlier with a change of the queue. */
    readonly dueFloor: Instant;
  };
  readonly lanes: { readonly isLoaded: boolean } | undefined;
}

/** What a limit tells as its queues change. */
export interface LimitEvents<Q extends Limited> {
  now(): Instant;
  /** It allows no further lease, or a key of it does not, for the first time in a second. `key`: undefined: it has none. */
  reached(limit: LeaseLimit<Q>, key: string | undefined): void;
  /** It allows no further lease, or a key of it does not. */
  usedUp(limit: LeaseLimit<Q>): void;
  /** A key of it gets a token, or all of its tokens, earlier than the others. */
  expects(limit: LeaseLimit<Q>): void;
  /** No key of it is used up any more. */
  rested(limit: LeaseLimit<Q>): void;
  /** The bucket of a key is full, and the key has no tasks. */
  filled(limit: LeaseLimit<Q>, key: string): void;
  /** It allows leases again. */
  freed(limit: LeaseLimit<Q>): void;
}

/**
 * A limit of several queues together. What they use of it follows from their ledgers: each queue tells of every change, and the
 * limit looks at its counts. So only the limit itself is on disk, and a lease that ends in any way gives its slot back.
 */
export class LeaseLimit<Q extends Limited> {
  /** May be replaced by one that allows as much. */
  record: LimitRecord;
  /** Tasks of its queues that are leased. */
  leased = 0;
  usedUpSince: Instant | undefined;
  readonly #events: LimitEvents<Q>;
  /** Its queues with leased tasks. */
  readonly #leasing = new Set<Q>();
  /** Its queues with available tasks. Those of which no task was leased for the longest time come first. */
  readonly #waiting = new Set<Q>();
  /** The last one of these. Undefined: not known. */
  #lastWaiting: Q | undefined;
  /** None of its queues has a lease that ends before. */
  #dueFloor = NEVER;
  #freedAt = Number.NEGATIVE_INFINITY;
  /** How long it had been used up at `#freedAt`. */
  #usedUpBefore: Instant | undefined;

  /** Undefined: any rate, or it is a limit of each key. */
  readonly tokens: TokenBucket | undefined;
  /** Set if it is a limit of each key. Its queues have no limit in common then. */
  readonly keys: KeyUses<Q> | undefined;

  constructor(record: LimitRecord, events: LimitEvents<Q>) {
    this.record = record;
    this.#events = events;
    const { rate } = record.message;
    if (record.matchesKey === undefined) {
      this.tokens = rate && new TokenBucket(rate);
      return;
    }
    this.keys = new KeyUses(record, {
      now: () => events.now(),
      reached: (key) => events.reached(this, key),
      usedUp: () => events.usedUp(this),
      expects: () => events.expects(this),
      rested: () => events.rested(this),
      filled: (key) => events.filled(this, key),
    });
  }

  /** Goes on with the buckets of the limit that it replaces. */
  replace(earlier: LeaseLimit<Q>): void {
    if (earlier.tokens !== undefined) this.tokens?.replace(earlier.tokens);
    if (earlier.keys !== undefined) this.keys?.replace(earlier.keys);
  }

  /** As `TokenBucket.restore`. `key`: empty if it is not a limit of each key. */
  restore(key: string, emptyAt: Instant): void {
    this.tokens?.restore(emptyAt, this.#events.now());
    this.keys?.restore(key, emptyAt);
  }

  get pattern(): string {
    return this.record.pattern;
  }

  /** How many tasks may be leased now. */
  get room(): number {
    if (this.keys !== undefined) return Number.POSITIVE_INFINITY;
    const { maxLeased } = this.record.message;
    const slots = maxLeased === 0 ? Number.POSITIVE_INFINITY : Math.max(0, maxLeased - this.leased);
    return this.tokens === undefined ? slots : Math.min(slots, this.tokens.count(this.#events.now()));
  }

  /** When it gets the token for which leases wait. It may have no slot then. */
  get refillsAt(): Instant {
    if (this.keys !== undefined) return this.keys.refillsAt;
    return this.tokens?.next(this.#events.now()) ?? NEVER;
  }

  /** Whether expired leases may hold back a request for so many tasks. */
  mayHoldBack(tasks: number): boolean {
    return this.keys === undefined ? this.room < tasks : this.keys.isUsedUp;
  }

  /** What callers see of it. `heldKeys`: how many keys whose tasks are held back, those of the longest time. */
  useNow(heldKeys: number): LimitUse {
    const { record, usedUpSince, keys } = this;
    if (keys === undefined) return { record, leased: this.leased, usedUpSince, ...NONE_HELD };
    const held: readonly HeldKey[] = keys.held(heldKeys);
    const { leased, heldTasks, heldKeys: heldKeyCount } = keys;
    return { record, leased, usedUpSince: held[0]?.usedUpSince, heldKeys: held, heldKeyCount, heldTasks };
  }

  /** Its queues that may have leases that are over. Many requests ask, and it has many queues. */
  due(now: Instant): readonly Q[] {
    if (now < this.#dueFloor) return NONE;
    const due: Q[] = [];
    this.#dueFloor = NEVER;
    for (const queue of this.#leasing) {
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
    const { leased, keyed } = queue.ledger;
    if (keyed > 0 && !queue.lanes?.isLoaded) this.keys?.unknown.add(queue);
    this.#count(queue, leased, true);
    this.settle();
  }

  /**
   * A queue has changed. A queue with 100 limits tells each of them of each lease, so this looks into no set that stays as it is
   * (bench row `controls`).
   * @param more how many more of its tasks are leased than before.
   * @param turned whether its first task became available, or the last one is no more.
   */
  note(queue: Q, more: number, turned: boolean): void {
    this.#count(queue, more, turned);
    if (more > 0) this.tokens?.take(more, this.#events.now());
    this.settle();
  }

  #count(queue: Q, more: number, turned: boolean): void {
    const { leased, available, dueFloor } = queue.ledger;
    if (leased > 0 && dueFloor < this.#dueFloor) this.#dueFloor = dueFloor;
    this.leased += more;
    if (leased === 0) {
      if (more !== 0) this.#leasing.delete(queue);
    } else if (leased === more) {
      this.#leasing.add(queue);
    }
    if (available === 0) {
      if (turned) this.#endWaiting(queue);
    } else if (turned || (more > 0 && this.#lastWaiting !== queue)) {
      // After a lease it goes behind the queues that have waited for longer.
      if (more > 0) this.#waiting.delete(queue);
      this.#waiting.add(queue);
      this.#lastWaiting = queue;
    }
  }

  #endWaiting(queue: Q): void {
    this.#waiting.delete(queue);
    if (this.#lastWaiting === queue) this.#lastWaiting = undefined;
  }

  /** A queue does not count any more. */
  forget(queue: Q): void {
    this.keys?.unknown.delete(queue);
    if (this.#leasing.delete(queue)) this.leased -= queue.ledger.leased;
    this.#endWaiting(queue);
    this.settle();
  }

  /** Tells whether it is used up now. */
  settle(): void {
    if (this.keys !== undefined) this.keys.refill();
    else if (this.room === 0) {
      if (this.usedUpSince !== undefined) return;
      const now = this.#events.now();
      const goesOn = now - this.#freedAt < BREAK_MS;
      this.usedUpSince = goesOn ? this.#usedUpBefore : now;
      if (!goesOn) this.#events.reached(this, undefined);
      this.#events.usedUp(this);
    } else if (this.usedUpSince !== undefined) {
      this.#usedUpBefore = this.usedUpSince;
      this.#freedAt = this.#events.now();
      this.usedUpSince = undefined;
      this.#events.freed(this);
    }
  }
}
