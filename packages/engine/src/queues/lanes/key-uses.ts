import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Instant } from '../../domain/ids.ts';
import type { HeldKey, LimitRecord } from '../../domain/queue-limits.ts';
import { TokenBucket } from './token-bucket.ts';

/** A key that is used up again within this time has been used up all the time, in ms. */
const BREAK_MS = 1000;
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
const NONE: readonly never[] = [];

/** The tasks of one queue with one key, as far as a limit knows them. */
export interface LimitedLane {
  /** Whether it has available tasks. A change is told by `KeyUses.noteWaiting`. */
  readonly countsAsWaiting: boolean;
  /** How many, as far as they are counted. A change is told in the same way. */
  readonly availableOfKey: number;
  /** The key may be leased again, or no more. */
  changed(): void;
}

/** What the tasks with one key use of a limit. */
export class KeyUse {
  readonly key: string;
  leased = 0;
  usedUpSince: Instant | undefined;
  readonly tokens: TokenBucket | undefined;
  /** Its lanes, one of each queue. Most keys have one, and there may be 100,000 keys: a set would take much memory. */
  #lanes: LimitedLane | Set<LimitedLane> | undefined;
  /** How many of them have available tasks. */
  waiting = 0;
  /** Available tasks with the key. */
  available = 0;
  /** Whether tasks with the key are held back. */
  isHeld = false;
  /**
   * When it gets the token for which leases wait, or its bucket is full and it may be forgotten. Undefined: it waits for
   * neither.
   */
  at: Instant | undefined;
  freedAt = Number.NEGATIVE_INFINITY;
  /** How long it had been used up at `freedAt`. */
  usedUpBefore: Instant | undefined;

  constructor(key: string, tokens: TokenBucket | undefined) {
    this.key = key;
    this.tokens = tokens;
  }

  get hasLanes(): boolean {
    return this.#lanes !== undefined;
  }

  /** A copy, because a lane without tasks leaves. */
  get lanes(): readonly LimitedLane[] {
    if (this.#lanes === undefined) return NONE;
    return this.#lanes instanceof Set ? [...this.#lanes] : [this.#lanes];
  }

  add(lane: LimitedLane): void {
    if (this.#lanes === undefined) this.#lanes = lane;
    else if (this.#lanes instanceof Set) this.#lanes.add(lane);
    else this.#lanes = new Set([this.#lanes, lane]);
  }

  remove(lane: LimitedLane): void {
    if (this.#lanes === lane) this.#lanes = undefined;
    else if (this.#lanes instanceof Set && this.#lanes.delete(lane) && this.#lanes.size === 0) this.#lanes = undefined;
  }
}

const byKey = (a: KeyUse, b: KeyUse): number => (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);
const byInstant = (a: KeyUse, b: KeyUse): number => (a.at ?? 0) - (b.at ?? 0) || byKey(a, b);
const bySince = (a: KeyUse, b: KeyUse): number => (a.usedUpSince ?? 0) - (b.usedUpSince ?? 0) || byKey(a, b);

/** What a limit of keys tells. */
interface KeyEvents {
  now(): Instant;
  /** A key is used up, for the first time in a second. Whether its tasks wait is known when the change is complete. */
  reached(key: string): void;
  /** The first key is used up. */
  usedUp(): void;
  /** A key waits for a token earlier than any before. */
  expects(): void;
  /** No key is used up any more. */
  rested(): void;
  /** The bucket of a key is full, and the key has no tasks. */
  filled(key: string): void;
}

/**
 * A limit that is one of each key, shared by the queues of the limit. What a key uses follows from the tasks that are leased, as
 * for a limit of queues. Only keys with tasks, or without all of their tokens, are in memory.
 */
export class KeyUses<Q = unknown> {
  /** Queues whose tasks by key are not in memory yet: no task with a key is leased before they are. */
  readonly unknown = new Set<Q>();
  readonly #uses = new Map<string, KeyUse>();
  /** How many keys are used up. */
  #usedUp = 0;
  /** Keys that wait for tokens, in the order in which they get them. */
  readonly #waiting = new OrderedSet<KeyUse>([], byInstant);
  /** Keys whose tasks are held back, first those that are for the longest time. */
  readonly #held = new OrderedSet<KeyUse>([], bySince);
  readonly record: LimitRecord;
  readonly #events: KeyEvents;
  /** Tasks with keys that are leased. */
  leased = 0;
  /** Available tasks that are held back: those of all keys in `#held`. */
  heldTasks = 0;

  constructor(record: LimitRecord, events: KeyEvents) {
    this.record = record;
    this.#events = events;
  }

  /** The buckets of the limit that this one replaces go on. */
  replace(earlier: KeyUses<Q>): void {
    for (const { key, tokens } of earlier.#uses.values()) {
      if (tokens === undefined) continue;
      const use = this.of(key);
      use.tokens?.replace(tokens);
      this.#settle(use);
      this.#forgetWhenIdle(use);
    }
  }

  /** As `TokenBucket.restore`, of a key. */
  restore(key: string, emptyAt: Instant): void {
    const use = this.of(key);
    use.tokens?.restore(emptyAt, this.#events.now());
    this.#forgetWhenIdle(use);
  }

  get isUsedUp(): boolean {
    return this.#usedUp > 0;
  }

  /** How many keys have tasks that are held back. */
  get heldKeys(): number {
    return this.#held.size();
  }

  /** When the first key gets the token for which leases wait. */
  get refillsAt(): Instant {
    return this.#waiting.front()?.at ?? NEVER;
  }

  of(key: string): KeyUse {
    let use = this.#uses.get(key);
    if (use === undefined) {
      const { rate } = this.record.message;
      use = new KeyUse(key, rate && new TokenBucket(rate));
      this.#uses.set(key, use);
    }
    return use;
  }

  /** How many tasks of the key may be leased now. */
  roomOf({ leased, tokens }: KeyUse): number {
    const { maxLeased } = this.record.message;
    const slots = maxLeased === 0 ? Number.POSITIVE_INFINITY : Math.max(0, maxLeased - leased);
    return tokens === undefined ? slots : Math.min(slots, tokens.count(this.#events.now()));
  }

  /** The tasks of a queue with the key count from now on. */
  join(use: KeyUse, lane: LimitedLane, leased: number): void {
    use.add(lane);
    this.noteWaiting(use, lane.countsAsWaiting ? 1 : 0, lane.availableOfKey);
    this.note(use, leased, 0);
  }

  leave(use: KeyUse, lane: LimitedLane, leased: number): void {
    use.remove(lane);
    this.noteWaiting(use, lane.countsAsWaiting ? -1 : 0, -lane.availableOfKey);
    this.note(use, -leased, 0);
    this.#forgetWhenIdle(use);
  }

  /** More lanes of the key have available tasks, and these `tasks` more of them. */
  noteWaiting(use: KeyUse, lanes: number, tasks: number): void {
    use.waiting += lanes;
    use.available += tasks;
    if (use.isHeld) this.heldTasks += tasks;
    this.#hold(use);
  }

  /** More tasks of the key are leased. `started`: how many leases have begun. */
  note(use: KeyUse, more: number, started: number): void {
    use.leased += more;
    this.leased += more;
    if (started > 0) use.tokens?.take(started, this.#events.now());
    this.#settle(use);
  }

  /** Lets the keys go on that have got tokens, and forgets those that have all of theirs. */
  refill(): void {
    if (this.#waiting.empty()) return;
    const now = this.#events.now();
    for (let use = this.#waiting.front(); use !== undefined && (use.at ?? 0) <= now; use = this.#waiting.front()) {
      this.#expect(use, undefined);
      if (use.hasLanes) this.#settle(use);
      else this.#forgetWhenIdle(use);
    }
  }

  /** Up to `most` keys whose tasks are held back for the longest time. */
  held(most: number): HeldKey[] {
    const held: HeldKey[] = [];
    for (const at = this.#held.begin(), end = this.#held.end(); held.length < most && !at.equals(end); at.next()) {
      const { key, leased, usedUpSince, available } = at.pointer;
      if (usedUpSince !== undefined) held.push({ key, leased, usedUpSince, available });
    }
    return held;
  }

  /** Whether tasks with the key are held back. */
  holds(key: string): boolean {
    return this.#uses.get(key)?.isHeld ?? false;
  }

  #settle(use: KeyUse): void {
    const now = this.#events.now();
    const isUp = this.roomOf(use) === 0;
    if (isUp) this.#expect(use, use.tokens?.next(now));
    if (isUp === (use.usedUpSince !== undefined)) return;
    if (isUp) {
      const goesOn = now - use.freedAt < BREAK_MS;
      use.usedUpSince = goesOn ? (use.usedUpBefore ?? now) : now;
      if (!goesOn) this.#events.reached(use.key);
      this.#hold(use);
      if (++this.#usedUp === 1) this.#events.usedUp();
    } else {
      this.#free(use);
    }
    for (const lane of use.lanes) lane.changed();
  }

  /** Counts a key among those that hold tasks back, or no more. */
  #hold(use: KeyUse): void {
    const isHeld = use.usedUpSince !== undefined && use.waiting > 0;
    if (isHeld === use.isHeld) return;
    use.isHeld = isHeld;
    if (isHeld) this.#held.insert(use);
    else this.#held.eraseElementByKey(use);
    this.heldTasks += isHeld ? use.available : -use.available;
  }

  #free(use: KeyUse): void {
    // While it has its place.
    if (use.isHeld) {
      this.#held.eraseElementByKey(use);
      this.heldTasks -= use.available;
    }
    use.isHeld = false;
    use.usedUpBefore = use.usedUpSince;
    use.freedAt = this.#events.now();
    use.usedUpSince = undefined;
    if (--this.#usedUp === 0) this.#events.rested();
  }

  /** A key without tasks goes when its bucket is full: until then it has fewer tokens than a new one. */
  #forgetWhenIdle(use: KeyUse): void {
    if (use.hasLanes) return;
    const fullAt = use.tokens?.fullAt(this.#events.now());
    this.#expect(use, fullAt);
    if (fullAt !== undefined) return;
    this.#uses.delete(use.key);
    if (use.usedUpSince !== undefined) this.#free(use);
    if (use.tokens !== undefined) this.#events.filled(use.key);
  }

  #expect(use: KeyUse, at: Instant | undefined): void {
    if (use.at === at) return;
    if (use.at !== undefined) this.#waiting.eraseElementByKey(use);
    use.at = at;
    if (at === undefined) return;
    this.#waiting.insert(use);
    if (this.#waiting.front() === use) this.#events.expects();
  }
}
