import type { LeasePattern } from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { sleep } from '../ports/sleep.ts';
import type { Queue } from '../queues/queue.ts';

/** Patterns over all groups. The name of each new queue is matched with all of them. */
const MOST_OVER_GROUPS = 256;
/** Patterns in all. A new queue is matched only with those of its group. */
const MOST_PATTERNS = 10_000;
/** Pairs of a pattern and a queue that matches, which take about 100 bytes each. */
const MOST_PAIRS = 500_000;
/** One principal may have this part of the patterns, of those over all groups, and of the pairs. */
const PART_OF_PRINCIPAL = 1 / 4;
/** How long a pattern without requests stays, in ms, so that the next request finds its queues matched. */
const KEPT_MS = 60_000;
/** New queues are matched in the turns of their commits for this part of the time, in ms. The others follow a little later. */
const SLICE_MS = 4;
const SLICE_EVERY_MS = 20;
/** The pause after a slice is longer than the slice by this factor, so that slow expressions leave most of the time to others. */
const PAUSE_FACTOR = 4;
/** Queues from which a caller could not lease that a request looks at again. */
const BARRED_AT_ONCE = 256;
/** A pattern that takes this long for one name is not matched in the turns of commits, in ms. */
const SLOW_MS = 2;
const NONE: readonly never[] = [];

/** The queues that match one pattern. */
export class FollowedPattern {
  readonly key: string;
  readonly group: string | undefined;
  readonly principal: string | undefined;
  readonly matches: LeasePattern['matches'];
  /** Of the caller that used it last; see `LeasePattern`. Callers of one pattern have the same rights while it is valid. */
  mayLease: LeasePattern['mayLease'];
  /** Matching queues that may have available tasks. The first one has the next turn. */
  readonly ready = new Set<Queue>();
  /** Matching queues that may have available tasks and from which its callers may not lease. */
  readonly #barred = new Set<Queue>();
  /** True until the queues that exist are matched. */
  isMatching = true;
  /** True if the last name took long. */
  isSlow = false;
  /** Requests without an answer. */
  requests = 0;
  usedAt = 0;

  constructor({ key, group, principal, matches, mayLease }: LeasePattern) {
    this.key = key;
    this.group = group;
    this.principal = principal;
    this.matches = matches;
    this.mayLease = mayLease;
  }

  /** A matching queue may have available tasks from now on. */
  becameReady(queue: Queue): void {
    if (this.ready.has(queue) || this.#barred.has(queue)) return;
    if (this.mayLease?.(queue.ledger.name.group) === false) this.#barred.add(queue);
    else this.ready.add(queue);
  }

  /** Its callers may not lease from this queue. */
  bar(queue: Queue): void {
    this.ready.delete(queue);
    this.#barred.add(queue);
  }

  /** Looks at some of the queues from which callers could not lease, because rights change. */
  followRights(mayLease: LeasePattern['mayLease']): void {
    this.mayLease = mayLease;
    let left = Math.min(this.#barred.size, BARRED_AT_ONCE);
    for (const queue of this.#barred) {
      if (left-- === 0) break;
      this.#barred.delete(queue);
      if (queue.isOffering) this.becameReady(queue);
    }
  }

  forget(queue: Queue): void {
    this.ready.delete(queue);
    this.#barred.delete(queue);
  }

  clear(): void {
    this.ready.clear();
    this.#barred.clear();
  }
}

/** A queue with the patterns that it matches. */
export interface Followed {
  readonly queue: Queue;
  readonly patterns: readonly FollowedPattern[];
}

export interface FollowedPatternsEvents {
  /** The queues that exist are matched. */
  matched(pattern: FollowedPattern): void;
  /** The requests with this pattern cannot be served. */
  failed(pattern: FollowedPattern, error: unknown): void;
  /** A queue with available tasks matches from now on. */
  available(queue: Queue): void;
}

/**
 * Patterns of lease requests. Each name of a queue is matched once with each pattern: when the pattern is used first, or when the
 * queue is created. So a task that becomes available costs a look into a map.
 */
export class FollowedPatterns {
  readonly #events: FollowedPatternsEvents;
  readonly #patterns = new Map<string, FollowedPattern>();
  /** By group. Undefined: over all groups. */
  readonly #byGroup = new Map<string | undefined, Set<FollowedPattern>>();
  /** By the full name of the queue. */
  readonly #followed = new Map<string, { readonly queue: Queue; readonly patterns: FollowedPattern[] }>();
  /** New queues that are not matched yet, with the patterns that are left. */
  readonly #late = new Map<Queue, Iterator<FollowedPattern>>();
  #pairs = 0;
  /** By principal. */
  readonly #pairsOf = new Map<string, number>();
  readonly #patternsOf = new Map<string, number>();
  /** When unused patterns were dropped last. */
  #droppedAt = 0;
  #sliceEnds = 0;
  #spentMs = 0;
  #engineState: EngineState;

  constructor(engineState: EngineState, events: FollowedPatternsEvents) {
    this.#engineState = engineState;
    this.#events = events;
  }

  get isEmpty(): boolean {
    return this.#patterns.size === 0;
  }

  get(key: string): FollowedPattern | undefined {
    return this.#patterns.get(key);
  }

  keys(): Iterable<string> {
    return this.#patterns.keys();
  }

  /** Those that may match queues of a group. */
  *of(group: string): Generator<FollowedPattern> {
    yield* this.#byGroup.get(undefined) ?? [];
    yield* this.#byGroup.get(group) ?? [];
  }

  /** True if `waits` is true for a pattern that requests use. */
  hasWaiting(waits: (key: string) => boolean): boolean {
    for (const { key, requests } of this.#patterns.values()) if (requests > 0 && waits(key)) return true;
    return false;
  }

  /** Undefined: it matches no pattern. */
  following(fullName: string): Followed | undefined {
    return this.#followed.get(fullName);
  }

  /** A queue may have available tasks from now on. Returns the patterns that it matches. */
  becameReady(queue: Queue): readonly FollowedPattern[] {
    const patterns = this.isEmpty ? undefined : this.#followed.get(queue.fullName)?.patterns;
    if (patterns === undefined) return NONE;
    for (const pattern of patterns) pattern.becameReady(queue);
    return patterns;
  }

  /** Begins a request with this pattern. Throws a `Refusal` if there are too many patterns. */
  follow(asked: LeasePattern): FollowedPattern {
    this.#dropUnused(KEPT_MS);
    let pattern = this.#patterns.get(asked.key);
    if (pattern === undefined) {
      this.#makeRoom(asked);
      pattern = new FollowedPattern(asked);
      this.#patterns.set(asked.key, pattern);
      if (pattern.principal !== undefined) count(this.#patternsOf, pattern.principal, 1);
      const ofGroup = this.#byGroup.get(asked.group) ?? new Set();
      this.#byGroup.set(asked.group, ofGroup.add(pattern));
      this.#match(pattern);
      if (this.#patterns.get(asked.key) !== pattern) throw tooManyPairs();
    }
    pattern.followRights(asked.mayLease);
    pattern.requests++;
    if (this.#late.size > 0) this.#catchUp(pattern);
    return pattern;
  }

  unfollow(pattern: FollowedPattern): void {
    pattern.requests--;
    pattern.usedAt = this.#engineState.clock.now();
  }

  /** Continues with rebuilt memory. */
  adopt(engineState: EngineState): void {
    this.#engineState = engineState;
    this.#followed.clear();
    this.#late.clear();
    this.#pairs = 0;
    this.#pairsOf.clear();
    for (const pattern of [...this.#patterns.values()]) {
      pattern.clear();
      if (pattern.requests === 0) this.#drop(pattern);
      else this.#match(pattern);
    }
  }

  added(queue: Queue): void {
    if (this.isEmpty || queue.isReserved) return;
    this.#dropUnused(KEPT_MS);
    // A queue that has tasks already is one of a partition that is being loaded.
    if (queue.ledger.size > 0 || !this.#matchNow(queue)) {
      if (this.#late.size === 0) void this.#matchLate();
      this.#late.set(queue, this.of(queue.ledger.name.group));
    }
  }

  removed(queue: Queue): void {
    this.#late.delete(queue);
    const followed = this.#followed.get(queue.fullName);
    if (followed?.queue !== queue) return;
    this.#followed.delete(queue.fullName);
    for (const pattern of followed.patterns) {
      this.#countPairs(pattern, -1);
      pattern.forget(queue);
    }
  }

  /** Matches a new queue in this turn. False: there is no time. */
  #matchNow(queue: Queue): boolean {
    const { clock } = this.#engineState;
    const began = clock.now();
    if (began >= this.#sliceEnds) {
      this.#sliceEnds = began + SLICE_EVERY_MS;
      this.#spentMs = 0;
    }
    let isComplete = true;
    for (const pattern of this.of(queue.ledger.name.group)) {
      if (pattern.isSlow || this.#spentMs >= SLICE_MS) isComplete = false;
      else this.#spentMs += this.#matchOne(pattern, queue);
    }
    return isComplete;
  }

  /** Matches queues with the pattern of a new request, so that it finds all of them, unless that takes long. */
  #catchUp(pattern: FollowedPattern): void {
    let spentMs = 0;
    for (const queue of this.#late.keys()) {
      if (pattern.group !== undefined && pattern.group !== queue.ledger.name.group) continue;
      spentMs += this.#matchOne(pattern, queue);
      if (spentMs >= SLICE_MS) return;
    }
  }

  async #matchLate(): Promise<void> {
    const engineState = this.#engineState;
    const { clock } = engineState;
    let pauseMs = SLICE_EVERY_MS;
    do {
      await sleep(clock, pauseMs);
      if (engineState !== this.#engineState) return;
      const began = clock.now();
      for (const [queue, patterns] of this.#late) {
        // Queues take turns: one may match many slow patterns.
        this.#late.delete(queue);
        if (this.#matchUntil((began + SLICE_MS) as Instant, queue, patterns)) {
          if (queue.isOffering) this.#events.available(queue);
        } else this.#late.set(queue, patterns);
        if (clock.now() - began >= SLICE_MS) break;
      }
      pauseMs = Math.max(SLICE_EVERY_MS, (clock.now() - began) * PAUSE_FACTOR);
    } while (this.#late.size > 0);
  }

  /** Matches a queue with patterns until an instant. False: there are more. */
  #matchUntil(end: Instant, queue: Queue, patterns: Iterator<FollowedPattern>): boolean {
    for (let next = patterns.next(); !next.done; next = patterns.next()) {
      this.#matchOne(next.value, queue);
      if (this.#engineState.clock.now() >= end) return false;
    }
    return true;
  }

  /** Returns how long it took, in ms. */
  #matchOne(pattern: FollowedPattern, queue: Queue): number {
    const { clock } = this.#engineState;
    const began = clock.now();
    try {
      if (pattern.matches === undefined || pattern.matches(queue.fullName)) this.#note(pattern, queue);
    } catch (error) {
      // The commit that has created the queue is not at fault.
      this.#fail(pattern, error);
    }
    const elapsedMs = clock.now() - began;
    pattern.isSlow = elapsedMs >= SLOW_MS;
    return elapsedMs;
  }

  #note(pattern: FollowedPattern, queue: Queue): void {
    if (queue.dropped || this.#patterns.get(pattern.key) !== pattern) return;
    const followed = this.#followed.get(queue.fullName);
    if (followed?.queue !== queue) this.#followed.set(queue.fullName, { queue, patterns: [pattern] });
    else if (followed.patterns.includes(pattern)) return;
    else followed.patterns.push(pattern);
    if (queue.isOffering) pattern.becameReady(queue);
    const ofPrincipal = this.#countPairs(pattern, 1);
    if (this.#pairs > MOST_PAIRS || ofPrincipal > MOST_PAIRS * PART_OF_PRINCIPAL) this.#fail(pattern, tooManyPairs());
  }

  /** Returns the number of pairs of its principal. */
  #countPairs({ principal }: FollowedPattern, change: 1 | -1): number {
    this.#pairs += change;
    return principal === undefined ? 0 : count(this.#pairsOf, principal, change);
  }

  /** Matches the queues that exist. */
  #match(pattern: FollowedPattern): void {
    const engineState = this.#engineState;
    pattern.isMatching = true;
    const { matches, group } = pattern;
    const filter = group === undefined ? {} : { group };
    const note = (queue: Queue): void => this.#note(pattern, queue);
    function* names(): Generator<string, void, boolean> {
      for (const queue of engineState.table.inOrder(filter)) if (yield queue.fullName) note(queue);
    }
    if (matches === undefined) {
      for (const queue of engineState.table.inOrder(filter)) note(queue);
      pattern.isMatching = false;
      return;
    }
    const isCurrent = (): boolean => engineState === this.#engineState && this.#patterns.get(pattern.key) === pattern;
    engineState.names.prepare(matches, names(), 'patterns.name_regex').then(
      () => {
        if (!isCurrent()) return;
        pattern.isMatching = false;
        this.#events.matched(pattern);
      },
      (error: unknown) => {
        if (isCurrent()) this.#fail(pattern, error);
      },
    );
  }

  #fail(pattern: FollowedPattern, error: unknown): void {
    this.#drop(pattern);
    this.#events.failed(pattern, error);
  }

  #makeRoom(asked: LeasePattern): void {
    if (this.#limitFor(asked) === undefined) return;
    this.#dropUnused(0);
    const limit = this.#limitFor(asked);
    if (limit !== undefined) throw tooManyPatterns(limit);
  }

  /** The limit that another pattern would exceed. */
  #limitFor({ group, principal }: LeasePattern): number | undefined {
    if (this.#patterns.size >= MOST_PATTERNS) return MOST_PATTERNS;
    const ofOne = MOST_PATTERNS * PART_OF_PRINCIPAL;
    if (principal !== undefined && (this.#patternsOf.get(principal) ?? 0) >= ofOne) return ofOne;
    const overGroups = group === undefined ? this.#byGroup.get(undefined) : undefined;
    if (overGroups === undefined) return undefined;
    if (overGroups.size >= MOST_OVER_GROUPS) return MOST_OVER_GROUPS;
    const most = MOST_OVER_GROUPS * PART_OF_PRINCIPAL;
    if (principal === undefined || overGroups.size < most) return undefined;
    return [...overGroups].filter((pattern) => pattern.principal === principal).length >= most ? most : undefined;
  }

  /** Looks at the patterns at most once in this time. */
  #dropUnused(keptMs: number): void {
    const before = this.#engineState.clock.now() - keptMs;
    if (before < this.#droppedAt) return;
    this.#droppedAt = this.#engineState.clock.now();
    for (const pattern of this.#patterns.values()) {
      if (pattern.requests === 0 && pattern.usedAt <= before) this.#drop(pattern);
    }
  }

  #drop(pattern: FollowedPattern): void {
    const { key, group, principal } = pattern;
    if (this.#patterns.delete(key) && principal !== undefined) count(this.#patternsOf, principal, -1);
    const ofGroup = this.#byGroup.get(group);
    ofGroup?.delete(pattern);
    if (ofGroup?.size === 0) this.#byGroup.delete(group);
    pattern.clear();
    const { table } = this.#engineState;
    const names =
      group === undefined ? this.#followed.keys() : [...table.ofGroup(group)].map((queue) => queue.fullName);
    for (const name of names) {
      const followed = this.#followed.get(name);
      const at = followed?.patterns.indexOf(pattern) ?? -1;
      if (followed === undefined || at === -1) continue;
      followed.patterns.splice(at, 1);
      this.#countPairs(pattern, -1);
      if (followed.patterns.length === 0) this.#followed.delete(name);
    }
  }
}

/** Returns the number after the change. */
function count(counts: Map<string, number>, of: string, change: 1 | -1): number {
  const after = (counts.get(of) ?? 0) + change;
  if (after === 0) counts.delete(of);
  else counts.set(of, after);
  return after;
}

const tooManyPatterns = (most: number): Refusal =>
  new Refusal('TOO_MANY_WAITERS', `lease requests have ${most} different patterns of queues already`, {
    retryDelayMs: 1000,
    metadata: { limit: String(most) },
  });

const tooManyPairs = (): Refusal =>
  new Refusal('TOO_MANY_WAITERS', `the patterns of lease requests match more than ${MOST_PAIRS} queues together`, {
    retryDelayMs: 1000,
    metadata: { limit: String(MOST_PAIRS) },
  });
