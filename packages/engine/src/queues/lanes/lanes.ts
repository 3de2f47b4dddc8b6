import { OrderedSet } from '@js-sdsl/ordered-set';
import type { TaskChange } from '../../domain/atom.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import type { FairTurns } from '../../domain/queue-settings.ts';
import { isLeased, limitKeyOf, type TaskState } from '../../domain/task.ts';
import type { Cached } from '../cache/task-cache.ts';
import type { KeyUse, KeyUses, LimitedLane } from './key-uses.ts';

/** Tasks of one key in memory, if there are many keys. The others are read when these have been leased. */
const KEPT = 16;
/** Tasks of all keys in memory, if there are few keys. */
const KEPT_IN_ALL = 4096;
/** Memory of a task in a lane: its PID and key, its state and its history, about. Measured on Node 24. */
const TASK_BYTES = 500;
/** Tasks of one key that a search of all keys keeps: there may be 100,000 keys. */
export const KEPT_AT_LOAD = 2;
/** A key with fewer tasks in memory gets more when a read is made anyway. */
const SHORT = 4;
/** Keys that one look for those to be read passes. */
const MOST_LOOKED_AT = 1000;
/** How long the first attempt of a key is expected to take, in ms: little, so that a new key is tried soon. */
const FIRST_ATTEMPT_MS = 1;
/** A key is not expected to take longer than so many times what others take before one of its attempts has ended. */
const MOST_OF_OTHERS = 8;
/** The mean time of attempts follows the last ones: the latest counts as one of so many. */
const MEAN_OF = 8;
/** Keys without tasks whose time is remembered. */
const MOST_AHEAD = 10_000;
const NONE: readonly never[] = [];
/** Of all lanes without tasks in memory. Never changed. */
const NO_TASKS: LaneTask[] = [];

/** An available task, without its payload. */
export interface LaneTask {
  readonly pid: Pid;
  readonly state: TaskState;
}

/** A limit, as far as lanes use it. */
export interface KeyLimit {
  readonly record: { readonly pattern: string; readonly matchesKey: ((key: string) => boolean) | undefined };
  readonly keys: KeyUses | undefined;
}

/** The queue of the lanes. */
export interface LanesOwner {
  readonly ledger: { readonly leased: number; readonly plain: number };
  /** The most specific ones first. */
  readonly limits: readonly KeyLimit[] | undefined;
  readonly settings: { readonly fair: FairTurns | undefined };
  /** Available tasks without a key, in order: those in memory. */
  plainHead(): Iterable<LaneTask>;
  /** From this PID on there may be others. Undefined: all are in memory. */
  readonly plainMissing: Pid | undefined;
  /** Tasks with a key may be leased that might not before. */
  opened(): void;
}

/** Whose turn it is. Lower ones come first. */
interface Turn {
  /**
   * Time spent on tasks of the key, and expected to be spent on those that are leased and on the next one, divided by its weight,
   * in ms. 0 without fair turns.
   */
  readonly time: number;
  /** Tasks of the key that are leased, divided by its weight. 0 without fair turns. */
  readonly leased: number;
  readonly pid: Pid;
}

const before = (a: Turn, b: Turn): number =>
  a.time - b.time || a.leased - b.leased || (a.pid === b.pid ? 0 : a.pid < b.pid ? -1 : 1);

/**
 * The available tasks of one queue with one key, in order.
 *
 *  N1  Every available task of the key with a PID below `firstMissing` is in `tasks`. Undefined: all are.
 */
class Lane implements LimitedLane {
  readonly key: string;
  readonly lanes: Lanes;
  tasks = NO_TASKS;
  firstMissing: Pid | undefined;
  /** Number of its available tasks. Undefined: a search of all keys has not counted them. */
  available: number | undefined = 0;
  leased = 0;
  /** Whether its limits count it as one with available tasks. */
  countsAsWaiting = false;
  uses: readonly (readonly [KeyUses, KeyUse])[] = NONE;
  /** Set while tasks of it may be leased: its place among those. */
  turn: Turn | undefined;
  /** Time spent on its tasks, divided by its weight, in ms. */
  time: number;
  /** Mean time of its attempts, in ms. Undefined: none has ended. */
  meanMs: number | undefined;
  /** Up to when `time` counts. */
  #timedAt: number;
  /** For how long its leased tasks have been leased, together. */
  #leasedMs = 0;

  constructor(lanes: Lanes, key: string, now: number) {
    this.lanes = lanes;
    this.key = key;
    this.time = lanes.time;
    this.#timedAt = now;
  }

  /** Whether there are available tasks, or may be. */
  get isWaiting(): boolean {
    if (this.available !== undefined) return this.available > 0;
    return this.tasks.length > 0 || this.firstMissing !== undefined;
  }

  changed(): void {
    this.lanes.changed(this);
  }

  /** Adds the time since the last call to that of its leased tasks. */
  spend(now: number, weight: number): void {
    if (now <= this.#timedAt) return;
    const spent = this.leased * (now - this.#timedAt);
    this.time += spent / weight;
    this.#leasedMs += spent;
    this.#timedAt = now;
  }

  /** Its time counts from now on. */
  countFrom(now: number): void {
    this.#timedAt = now;
    this.#leasedMs = 0;
  }

  /** The time that is still to be spent on its leased tasks and on `more` of them. `othersMs`: how long those of others take. */
  expected(more: number, othersMs: number): number {
    const { leased } = this;
    if (this.meanMs === undefined && leased === 0 && more === 1) return FIRST_ATTEMPT_MS;
    // As long as none has ended, those that are leased are expected to take as long again. The bound lets a key go on whose first
    // task hangs.
    const againMs = leased === 0 ? 0 : Math.min((2 * this.#leasedMs) / leased, MOST_OF_OTHERS * othersMs);
    const eachMs = this.meanMs ?? Math.max(othersMs, againMs);
    return more * eachMs + Math.max(0, leased * eachMs - this.#leasedMs);
  }

  /** One of its tasks is leased no more, after so many ms. Call it while that one still counts. */
  ended(afterMs: number): void {
    this.#leasedMs = this.leased <= 1 ? 0 : Math.max(0, this.#leasedMs - afterMs);
    this.meanMs = meanAfter(this.meanMs, afterMs);
  }

  put(task: LaneTask): void {
    if (this.firstMissing !== undefined && task.pid >= this.firstMissing) return;
    const { length } = this.tasks;
    if (length === 0) {
      // Most keys have one task: an array that grows has room for many.
      this.tasks = [task];
    } else {
      const at = this.#placeOf(task.pid);
      this.tasks.splice(at, this.tasks[at]?.pid === task.pid ? 1 : 0, task);
      if (this.tasks.length > this.lanes.kept) this.firstMissing = this.tasks.pop()?.pid;
    }
    this.lanes.tasksInMemory += this.tasks.length - length;
  }

  remove(pid: Pid): void {
    const at = this.#placeOf(pid);
    if (this.tasks[at]?.pid !== pid) return;
    this.tasks.splice(at, 1);
    this.lanes.tasksInMemory--;
  }

  /** Its tasks are read again when they are needed. */
  shed(): void {
    this.firstMissing = this.tasks[0]?.pid ?? this.firstMissing;
    this.lanes.tasksInMemory -= this.tasks.length;
    this.tasks = NO_TASKS;
  }

  /** `more` of its tasks are available. Call it when `tasks` has changed. */
  count(more: number): void {
    if (this.available === undefined) return;
    this.available += more;
    // There are no others, whatever it was.
    if (this.available <= this.tasks.length) this.firstMissing = undefined;
  }

  /** The place of the first task that is not before `pid`. */
  #placeOf(pid: Pid): number {
    const { tasks } = this;
    let [from, to] = [0, tasks.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((tasks[middle]?.pid ?? pid) < pid) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

const meanAfter = (meanMs: number | undefined, ms: number): number =>
  meanMs === undefined ? ms : meanMs + (ms - meanMs) / MEAN_OF;

const compare = (a: Lane, b: Lane): number =>
  (a.turn && b.turn ? before(a.turn, b.turn) : 0) || (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);

/** A lane that a request leases from. */
interface Serving {
  readonly lane: Lane;
  readonly tasks: Iterator<LaneTask>;
  next: LaneTask | undefined;
  turn: Turn;
}

/**
 * The tasks of one queue with limit keys, by key. A queue has lanes as long as it has such tasks. Tasks whose key is used up wait
 * in their lanes, where nothing passes them: they are neither in the head of the queue nor read.
 *
 *  N2  `#open` holds the lanes with tasks of which a task may be leased, in order of their turns: without fair turns in the
 *      order of their first PIDs.
 */
export class Lanes implements Cached {
  /** How many tasks of all lanes are in memory. */
  tasksInMemory = 0;
  /** False: those in the store are not known yet. */
  isLoaded: boolean;
  /** Time of the lane that was served last. A lane that begins to wait has no more to catch up on. */
  time = 0;
  /** What the last look lacked to go on. */
  missing: Lane | 'lanes' | undefined;
  readonly #owner: LanesOwner;
  readonly #lanes = new Map<string, Lane>();
  readonly #open = new OrderedSet<Lane>([], compare);
  /** The other ones with tasks: a limit of their key is used up. Those that are held back for the longest time come first. */
  readonly #held = new Set<Lane>();
  /** Tasks without a key. Only its time is used. */
  readonly #plain: Lane;
  /** With fair turns: keys without tasks on which more time was spent than `time`. They have no advantage when they come back. */
  readonly #ahead = new Map<string, Pick<Lane, 'time' | 'meanMs'>>();
  /** The most time of these. */
  #aheadUpTo = 0;
  /** Mean time of the attempts of all keys, in ms. Undefined: none has ended. */
  #meanMs: number | undefined;
  #now: number;

  constructor(owner: LanesOwner, isLoaded: boolean, now: number) {
    this.#owner = owner;
    this.isLoaded = isLoaded;
    this.#now = now;
    this.#plain = new Lane(this, '', now);
    this.#plain.leased = isLoaded ? owner.ledger.leased : 0;
  }

  get size(): number {
    return this.#lanes.size;
  }

  /** Memory of the tasks. The keys themselves stay in memory. */
  get bytes(): number {
    return this.tasksInMemory * TASK_BYTES;
  }

  /** Sheds the tasks of those that are held back, then of those whose turns come last: a quarter or more, as it looks at many. */
  shed(bytes: number): void {
    const target = Math.max(0, this.bytes - Math.max(bytes, this.bytes / 4));
    for (const lane of this.#held) {
      if (this.bytes <= target) return;
      lane.shed();
    }
    for (const at = this.#open.rBegin(), end = this.#open.rEnd(); !at.equals(end); at.next()) {
      if (this.bytes <= target) return;
      at.pointer.shed();
    }
  }

  /** How many tasks of a key are in memory at most. */
  get kept(): number {
    return Math.max(KEPT, Math.floor(KEPT_IN_ALL / Math.max(1, this.#lanes.size)));
  }

  /** True if it remembers what was spent on keys that have no tasks any more. */
  get remembers(): boolean {
    return this.#owner.settings.fair !== undefined && this.#aheadUpTo > this.time;
  }

  /** True if tasks with a key may be leased, or must be read first to know. */
  get isOpen(): boolean {
    return !this.isReady || !this.#open.empty();
  }

  /** True if all is known that the limits of the queue count. */
  get isReady(): boolean {
    if (!this.isLoaded) return false;
    for (const { keys } of this.#owner.limits ?? NONE) if (keys !== undefined && keys.unknown.size > 0) return false;
    return true;
  }

  /** How many keys limits hold back. */
  get heldKeys(): number {
    return this.#held.size;
  }

  /** The limit that holds back tasks of a key for the longest time. Undefined: none does. */
  get heldBy(): KeyLimit | undefined {
    let since = Number.MAX_SAFE_INTEGER;
    let by: KeyUses | undefined;
    let looked = 0;
    for (const { uses } of this.#held) {
      if (++looked > MOST_LOOKED_AT) break;
      for (const [keys, { usedUpSince }] of uses) {
        if (usedUpSince === undefined || usedUpSince >= since) continue;
        since = usedUpSince;
        by = keys;
      }
    }
    return this.#owner.limits?.find(({ keys }) => keys !== undefined && keys === by);
  }

  /** A task has changed. Call it when the ledger counts the change. */
  note(change: TaskChange, now: Instant): void {
    // What changes before the lanes are loaded is pending, and found when they are.
    if (!this.isLoaded) return;
    this.#now = Math.max(this.#now, now);
    const earlier = change.kind === 'enqueue' ? undefined : change.before;
    const after = change.kind === 'dequeue' ? undefined : change.after;
    const earlierKey = earlier && limitKeyOf(earlier);
    const key = after && limitKeyOf(after);
    if (earlier !== undefined && (after === undefined || earlierKey !== key))
      this.#noteIn(earlierKey, change.pid, earlier, undefined);
    if (after !== undefined) this.#noteIn(key, change.pid, earlierKey === key ? earlier : undefined, after);
  }

  #noteIn(key: string | undefined, pid: Pid, earlier: TaskState | undefined, after: TaskState | undefined): void {
    const lane = key === undefined ? this.#plain : this.#laneOf(key);
    const wasLeased = earlier !== undefined && isLeased(earlier);
    const isNowLeased = after !== undefined && isLeased(after);
    const more = (isNowLeased ? 1 : 0) - (wasLeased ? 1 : 0);
    const started = isNowLeased && earlier?.token !== after.token ? 1 : 0;
    if (more !== 0) {
      if (this.#owner.settings.fair !== undefined) this.#spend(lane);
      if (started > 0) this.time = Math.max(this.time, lane.time);
      if (more < 0 && earlier !== undefined) this.#ended(lane, earlier);
      lane.leased += more;
    }
    if (lane === this.#plain) {
      const isNew = after?.visibility.kind === 'available' && earlier?.visibility.kind !== 'available';
      if (isNew && this.#owner.ledger.plain === 1) lane.time = Math.max(lane.time, this.time);
      return;
    }
    const wasAvailable = earlier?.visibility.kind === 'available';
    const isAvailable = after?.visibility.kind === 'available';
    if (isAvailable) lane.put({ pid, state: after });
    else if (wasAvailable) lane.remove(pid);
    if (wasAvailable !== isAvailable) lane.count(isAvailable ? 1 : -1);
    if (more !== 0 || started > 0) for (const [keys, use] of lane.uses) keys.note(use, more, started);
    this.settle(lane);
  }

  #spend(lane: Lane): void {
    lane.spend(this.#now, this.#owner.settings.fair?.weightOf(lane.key) ?? 1);
  }

  #ended(lane: Lane, { visibility }: TaskState): void {
    if (this.#owner.settings.fair === undefined || visibility.kind !== 'hidden' || !visibility.lease) return;
    const afterMs = Math.max(0, this.#now - visibility.lease.since);
    lane.ended(afterMs);
    this.#meanMs = meanAfter(this.#meanMs, afterMs);
  }

  #laneOf(key: string): Lane {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = new Lane(this, key, this.#now);
      const ahead = this.#ahead.get(key);
      if (ahead !== undefined) {
        this.#ahead.delete(key);
        lane.time = Math.max(lane.time, ahead.time);
        lane.meanMs = ahead.meanMs;
      }
      // It is not one of the lanes yet: a lane without tasks goes when a limit tells it of a change.
      this.#join(lane);
      this.#lanes.set(key, lane);
    }
    return lane;
  }

  /** Remembers what was spent on the key of a lane that ends, until as much was spent on others. */
  #remember({ key, time, meanMs }: Lane): void {
    if (this.#owner.settings.fair === undefined || time <= this.time) return;
    this.#ahead.set(key, { time, meanMs });
    this.#aheadUpTo = Math.max(this.#aheadUpTo, time);
    if (this.#ahead.size <= MOST_AHEAD) return;
    for (const [other, ahead] of this.#ahead) if (ahead.time <= this.time) this.#ahead.delete(other);
    for (const other of this.#ahead.keys()) {
      if (this.#ahead.size <= MOST_AHEAD / 2) break;
      this.#ahead.delete(other);
    }
  }

  /** The limits of the key of a lane: of limits of the same queues only the one that names it best. */
  #usesOf({ key }: Lane): readonly (readonly [KeyUses, KeyUse])[] {
    let uses: [KeyUses, KeyUse][] | undefined;
    let patterns: Set<string> | undefined;
    for (const { keys, record } of this.#owner.limits ?? NONE) {
      if (keys === undefined || !record.matchesKey?.(key) || patterns?.has(record.pattern)) continue;
      patterns ??= new Set();
      patterns.add(record.pattern);
      uses ??= [];
      uses.push([keys, keys.of(key)]);
    }
    return uses ?? NONE;
  }

  /** A lane counts in the limits of its key, and in no others any more. */
  #join(lane: Lane): void {
    const before = lane.uses;
    lane.uses = this.#usesOf(lane);
    for (const [keys, use] of lane.uses)
      if (!before.some(([other]) => other === keys)) keys.join(use, lane, lane.leased);
    for (const [keys, use] of before)
      if (!lane.uses.some(([other]) => other === keys)) keys.leave(use, lane, lane.leased);
  }

  #leave(lane: Lane): void {
    const { uses } = lane;
    lane.uses = NONE;
    for (const [keys, use] of uses) keys.leave(use, lane, lane.leased);
  }

  /** The limits of the queue have changed. */
  limited(): void {
    for (const lane of [...this.#lanes.values()]) {
      this.#join(lane);
      this.settle(lane);
    }
  }

  /** The settings of the queue have changed. Weights apply to the time from now on. */
  reorder(before: FairTurns | undefined, now: Instant): void {
    this.#now = Math.max(this.#now, now);
    for (const lane of [this.#plain, ...this.#lanes.values()]) {
      if (before === undefined) lane.countFrom(this.#now);
      else lane.spend(this.#now, before.weightOf(lane.key));
      if (lane !== this.#plain) this.settle(lane);
    }
  }

  /** Ends the lanes, because the queue has no tasks with keys, or ends itself. */
  end(): void {
    for (const lane of this.#lanes.values()) this.#leave(lane);
    this.tasksInMemory = 0;
    this.#lanes.clear();
    this.#open.clear();
    this.#held.clear();
    // Those in the store have gone, too.
    for (const { keys } of this.#owner.limits ?? NONE) keys?.unknown.delete(this.#owner);
  }

  /** Takes or gives a lane its place among those of which tasks may be leased. */
  settle(lane: Lane): void {
    const wasOpen = this.#close(lane);
    const { isWaiting } = lane;
    if (isWaiting !== lane.countsAsWaiting) {
      lane.countsAsWaiting = isWaiting;
      for (const [keys, use] of lane.uses) keys.noteWaiting(use, isWaiting ? 1 : -1);
    }
    if (!isWaiting) {
      this.#held.delete(lane);
      if (lane.leased > 0) return;
      if (this.#lanes.get(lane.key) !== lane) return;
      lane.shed();
      this.#lanes.delete(lane.key);
      this.#leave(lane);
      this.#remember(lane);
      return;
    }
    for (const [keys, use] of lane.uses) {
      if (keys.roomOf(use) > 0) continue;
      this.#held.add(lane);
      return;
    }
    this.#held.delete(lane);
    if (!wasOpen) lane.time = Math.max(lane.time, this.time);
    this.#openAt(lane);
  }

  /** The limits of a lane allow leases, or no more. */
  changed(lane: Lane): void {
    const wasOpen = lane.turn !== undefined;
    this.settle(lane);
    if (!wasOpen && lane.turn !== undefined) this.#owner.opened();
  }

  #close(lane: Lane): boolean {
    if (lane.turn === undefined) return false;
    this.#open.eraseElementByKey(lane);
    lane.turn = undefined;
    return true;
  }

  #openAt(lane: Lane): void {
    lane.turn = this.#turnOf(lane, lane.tasks[0]?.pid ?? lane.firstMissing ?? ('' as Pid), 0);
    this.#open.insert(lane);
  }

  /** `more`: tasks that are about to be leased. */
  #turnOf(lane: Lane, pid: Pid, more: number): Turn {
    const { fair } = this.#owner.settings;
    if (fair === undefined) return { time: 0, leased: 0, pid };
    this.#spend(lane);
    const weight = fair.weightOf(lane.key);
    const expected = lane.expected(more + 1, this.#meanMs ?? FIRST_ATTEMPT_MS);
    return { time: lane.time + expected / weight, leased: (lane.leased + more) / weight, pid };
  }

  /**
   * The tasks that a request may lease, in order. The lanes must not change meanwhile. Afterwards `missing` says if something
   * must be read to go on. @param taken how many tasks of keys the request gets of other queues. Those of this queue are added.
   */
  *head(now: Instant, maxPid: Pid | undefined, taken: Map<KeyUse, number>): Generator<LaneTask> {
    this.#now = Math.max(this.#now, now);
    this.missing = this.isReady ? undefined : 'lanes';
    if (this.missing !== undefined) return;
    /** In order of their turns. */
    const serving: Serving[] = [];
    const out: Lane[] = [];
    const hasRoom = (lane: Lane): boolean => lane.uses.every(([keys, use]) => keys.roomOf(use) > (taken.get(use) ?? 0));
    const serve = (lane: Lane, tasks: Iterator<LaneTask>, count: number): void => {
      const next: LaneTask | undefined = tasks.next().value;
      const pid = next?.pid ?? lane.firstMissing;
      if (pid === undefined || (maxPid !== undefined && pid > maxPid) || !hasRoom(lane)) return;
      const turn = this.#turnOf(lane, pid, count);
      const at = serving.findIndex((other) => before(turn, other.turn) < 0);
      serving.splice(at < 0 ? serving.length : at, 0, { lane, tasks, next, turn });
    };
    const counts = new Map<Lane, number>();
    try {
      this.#plain.firstMissing = this.#owner.plainMissing;
      serve(this.#plain, this.#owner.plainHead()[Symbol.iterator](), 0);
      for (;;) {
        const [first] = serving;
        const front = this.#frontUpTo(maxPid);
        // Time goes on while tasks are leased, so a lane may come later than when it got its place, and never earlier.
        if (front?.turn !== undefined && (first === undefined || before(front.turn, first.turn) < 0)) {
          this.#close(front);
          out.push(front);
          serve(front, front.tasks[Symbol.iterator](), 0);
          continue;
        }
        if (first === undefined) return;
        const { lane, tasks, next } = first;
        if (next === undefined) {
          this.missing = lane;
          return;
        }
        yield next;
        serving.shift();
        for (const [, use] of lane.uses) taken.set(use, (taken.get(use) ?? 0) + 1);
        const count = (counts.get(lane) ?? 0) + 1;
        counts.set(lane, count);
        serve(lane, tasks, count);
      }
    } finally {
      for (const lane of out) this.#openAt(lane);
    }
  }

  /** The lane whose turn is next. Without fair turns there is none if the next tasks are behind `maxPid`. */
  #frontUpTo(maxPid: Pid | undefined): Lane | undefined {
    const front = this.#open.front();
    if (maxPid === undefined || front?.turn === undefined || this.#owner.settings.fair !== undefined) return front;
    return front.turn.pid > maxPid ? undefined : front;
  }

  /** Lanes of which tasks must be read, and those that will be next, up to `most`. */
  toRead(most: number): LaneToRead[] {
    const found = new Set<Lane>();
    if (this.missing instanceof Lane && this.missing !== this.#plain) found.add(this.missing);
    let looked = 0;
    for (const at = this.#open.begin(), end = this.#open.end(); !at.equals(end); at.next()) {
      if (found.size >= most || ++looked > MOST_LOOKED_AT) break;
      if (at.pointer.tasks.length < SHORT) found.add(at.pointer);
    }
    const toRead: LaneToRead[] = [];
    for (const { key, firstMissing } of found) if (firstMissing !== undefined) toRead.push({ key, from: firstMissing });
    return toRead;
  }

  /** Adds what was read of a lane. `tasks`: available ones from `from` on, of which the store or memory has no later change. */
  add({ key, from }: LaneToRead, tasks: readonly LaneTask[], to: Pid | undefined): void {
    const lane = this.#lanes.get(key);
    // What was taken out of memory since is read again.
    if (lane === undefined || lane.firstMissing !== from) return;
    lane.firstMissing = to;
    if (to === undefined) lane.available = lane.tasks.length + tasks.length;
    for (const task of tasks) lane.put(task);
    this.settle(lane);
  }

  /** Adds all that the store and memory have. */
  load(found: ReadonlyMap<string, FoundLane>, pending: Iterable<LaneTask>, now: Instant): void {
    this.#now = Math.max(this.#now, now);
    this.#plain.countFrom(this.#now);
    let leased = 0;
    for (const [key, { leased: ofKey, tasks, firstMissing }] of found) {
      const lane = new Lane(this, key, this.#now);
      this.#lanes.set(key, lane);
      lane.leased = ofKey;
      leased += ofKey;
      lane.firstMissing = firstMissing;
      lane.available = firstMissing === undefined ? tasks.length : undefined;
      for (const task of tasks) lane.put(task);
    }
    for (const { pid, state } of pending) {
      const key = limitKeyOf(state);
      if (key === undefined) continue;
      const lane = this.#lanes.get(key) ?? new Lane(this, key, this.#now);
      this.#lanes.set(key, lane);
      if (isLeased(state)) {
        lane.leased++;
        leased++;
      } else if (state.visibility.kind === 'available') {
        lane.put({ pid, state });
        lane.count(1);
      }
    }
    this.isLoaded = true;
    this.#plain.leased = this.#owner.ledger.leased - leased;
    for (const { keys } of this.#owner.limits ?? NONE) keys?.unknown.delete(this.#owner);
    for (const lane of [...this.#lanes.values()]) {
      if (lane.isWaiting || lane.leased > 0) this.#join(lane);
      this.settle(lane);
    }
  }
}

export interface LaneToRead {
  readonly key: string;
  readonly from: Pid;
}

/** What the store has of a key. */
export interface FoundLane {
  leased: number;
  readonly tasks: LaneTask[];
  firstMissing: Pid | undefined;
}
