import { OrderedSet, type OrderedSetIterator } from '@js-sdsl/ordered-set';
import type { TaskChange } from '../../domain/atom.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import type { KindFilter } from '../../domain/kind-filter.ts';
import type { FairTurns } from '../../domain/queue-settings.ts';
import { isLeased, type LaneName, laneOf, type TaskState } from '../../domain/task.ts';
import { PayloadSlabs } from '../cache/payload-slabs.ts';
import { Place } from '../cache/places.ts';
import type { ReadyTask } from '../cache/queue-cache.ts';
import type { Cached } from '../cache/task-cache.ts';
import type { KeyUse, KeyUses, LimitedLane } from './key-uses.ts';

/** Tasks of one lane in memory: so many if there are many lanes, and if there are few. The others are read later. */
const KEPT = 16;
const MOST_KEPT = 4096;
/** Tasks of all lanes in memory, unless there are so many lanes that each has the least. */
const KEPT_IN_ALL = 64 * 1024;
/** Memory of a task in a lane without its payload: its PID and key, its state and its history, about. Measured on Node 24. */
const TASK_BYTES = 500;
/**
 * Payloads of all lanes of a queue in memory, in bytes. Without them each lease would read its payload alone (bench row
 * `controls`). More of them would leave less memory for the tasks of 100,000 keys.
 */
const MOST_PAYLOAD_BYTES = 32 * 1024 * 1024;
/** Tasks of one lane that a search of all lanes keeps: there may be 100,000 keys. */
export const KEPT_AT_LOAD = 2;
/** A lane with fewer tasks in memory gets more when a read is made anyway. */
const SHORT = 4;
/** Lanes that one look for those to be read passes. */
const MOST_LOOKED_AT = 1000;
/** How long the first attempt of a key is expected to take, in ms: little, so that a new key is tried soon. */
const FIRST_ATTEMPT_MS = 1;
/** A key is not expected to take longer than so many times what others take before one of its attempts has ended. */
const MOST_OF_OTHERS = 8;
/** The mean time of attempts follows the last ones: the latest counts as one of so many. */
const MEAN_OF = 8;
/** Keys without tasks whose time is remembered. */
const MOST_AHEAD = 10_000;
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
const NONE: readonly never[] = [];
/** Of all lanes without tasks in memory. Never changed. */
const NO_TASKS: Place[] = [];

/** An available task for a lane. */
export interface LaneTask {
  readonly pid: Pid;
  readonly state: TaskState;
  /** Its payload, if it is in memory. */
  readonly data: Uint8Array | undefined;
}

/** A limit of keys, and what one key uses of it. */
type UseOfLimit = readonly [KeyUses, KeyUse];

/** A limit, as far as lanes use it. */
interface KeyLimit {
  readonly record: { readonly pattern: string; readonly matchesKey: ((key: string) => boolean) | undefined };
  readonly keys: KeyUses | undefined;
}

/** The queue of the lanes. */
export interface LanesOwner {
  readonly ledger: { readonly leased: number; readonly plain: number; readonly keyedReady: number };
  /** The most specific ones first. */
  readonly limits: readonly KeyLimit[] | undefined;
  readonly settings: { readonly fair: FairTurns | undefined };
  /** Available tasks without a key and a kind, in order: those in memory. */
  plainHead(): Iterable<ReadyTask>;
  /** From this PID on there may be others. Undefined: all are in memory. */
  readonly plainMissing: Pid | undefined;
  /** Tasks in lanes may be leased that might not before. */
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

/** The names of lanes that stand for them in maps. No key has U+FFFD. */
export const laneId = ({ limitKey, kind }: LaneName): string => (kind ? `\uFFFD${kind}\uFFFD${limitKey}` : limitKey);

const isSameLane = (a: LaneName | undefined, b: LaneName | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && a.limitKey === b.limitKey && (a.kind || '') === (b.kind || ''));

const hasLimit = (uses: readonly UseOfLimit[], [keys]: UseOfLimit): boolean => uses.some(([other]) => other === keys);

/**
 * The available tasks of one queue with one key and one kind, in order. The lane of a key without a kind also has what all tasks
 * with this key have in common, whatever their kind.
 *
 *  N1  Every available task of the lane with a PID below `firstMissing` is in `tasks`. Undefined: all are.
 */
class Lane implements LimitedLane, LaneName {
  readonly limitKey: string;
  /** Empty: none. */
  readonly kind: string;
  readonly lanes: Lanes;
  /** The lane with this key and without a kind. */
  readonly ofKey: Lane;
  /** Of the lane of a key: the others with this key. Undefined: there are none. */
  kinds: Lane[] | undefined;
  tasks = NO_TASKS;
  firstMissing: Pid | undefined;
  /** Number of its available tasks. Undefined: a search of all lanes has not counted them. */
  available: number | undefined = 0;
  /** How many of them `availableOfKey` counts. */
  counted = 0;
  /** Set while tasks of it may be leased: its place among those. */
  turn: Turn | undefined;
  // From here on: only of the lane of a key.
  leased = 0;
  /** Whether the limits count the key as one with available tasks. */
  countsAsWaiting = false;
  /** Available tasks with this key, of all kinds: what the limits count of them. */
  availableOfKey = 0;
  /** Whether a limit holds the key back. */
  isHeld = false;
  uses: readonly UseOfLimit[] = NONE;
  /** Time spent on its tasks, divided by its weight, in ms. */
  time: number;
  /** Mean time of its attempts, in ms. Undefined: none has ended. */
  meanMs: number | undefined;
  /** Up to when `time` counts. */
  #timedAt: number;
  /** For how long its leased tasks have been leased, together. */
  #leasedMs = 0;

  constructor(lanes: Lanes, limitKey: string, now: number, kind = '', ofKey?: Lane) {
    this.lanes = lanes;
    this.limitKey = limitKey;
    this.kind = kind;
    this.ofKey = ofKey ?? this;
    this.time = lanes.time;
    this.#timedAt = now;
  }

  /** Whether there are available tasks, or may be. */
  get isWaiting(): boolean {
    if (this.available !== undefined) return this.available > 0;
    return this.tasks.length > 0 || this.firstMissing !== undefined;
  }

  /** Whether there are available tasks with this key, or may be. */
  get isKeyWaiting(): boolean {
    return this.isWaiting || this.kinds?.some(({ isWaiting }) => isWaiting) === true;
  }

  /** Whether tasks with this key may be leased that are in lanes. */
  get isKeyOpen(): boolean {
    return this.turn !== undefined || this.kinds?.some(({ turn }) => turn !== undefined) === true;
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

  put(pid: Pid, state: TaskState, data: Uint8Array | undefined): void {
    if (this.firstMissing !== undefined && pid >= this.firstMissing) return;
    const at = this.#placeOf(pid);
    const known = this.tasks[at];
    const place = new Place(pid, state);
    if (known?.pid === pid) {
      this.lanes.dropPayload(known);
      this.tasks[at] = place;
    } else {
      this.lanes.tasksInMemory++;
      // Most keys have one task: an array that grows has room for many.
      if (this.tasks.length === 0) this.tasks = [place];
      else this.tasks.splice(at, 0, place);
    }
    if (data !== undefined) this.lanes.keepPayload(data, place);
    if (this.tasks.length <= this.lanes.kept) return;
    const last = this.tasks.pop();
    if (last === undefined) return;
    this.firstMissing = last.pid;
    this.lanes.dropPayload(last);
    this.lanes.tasksInMemory--;
  }

  remove(pid: Pid): void {
    const at = this.#placeOf(pid);
    const place = this.tasks[at];
    if (place?.pid !== pid) return;
    this.tasks.splice(at, 1);
    this.lanes.dropPayload(place);
    this.lanes.tasksInMemory--;
  }

  /** Its tasks are read again when they are needed. */
  shed(): void {
    this.firstMissing = this.tasks[0]?.pid ?? this.firstMissing;
    for (const place of this.tasks) this.lanes.dropPayload(place);
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

const order = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

const compare = (a: Lane, b: Lane): number =>
  (a.turn && b.turn ? before(a.turn, b.turn) : 0) || order(a.limitKey, b.limitKey) || order(a.kind, b.kind);

/** A lane that a request leases from. */
class Serving {
  readonly lane: Lane;
  next: ReadyTask | undefined;
  turn: Turn | undefined;
  /** Of tasks that wait in the head of the queue. */
  readonly #tasks: Iterator<ReadyTask> | undefined;
  #at = 0;

  constructor(lane: Lane, tasks?: Iterator<ReadyTask>) {
    this.lane = lane;
    this.#tasks = tasks;
    this.goOn();
  }

  goOn(): void {
    const tasks = this.#tasks;
    this.next = tasks === undefined ? this.lane.tasks[this.#at++] : (tasks.next().value as ReadyTask | undefined);
  }
}

/** Puts one into a list that is in order of the turns. */
function insert(list: Serving[], one: Serving, turn: Turn): void {
  one.turn = turn;
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    const other = list[middle]?.turn;
    if (other !== undefined && before(turn, other) < 0) to = middle;
    else from = middle + 1;
  }
  list.splice(from, 0, one);
}

/**
 * The tasks of one queue with limit keys or kinds, by both. A queue has lanes as long as it has such tasks. Tasks whose key is
 * used up, or whose kind a request does not accept, wait in their lanes, where nothing passes them: they are neither in the head
 * of the queue nor read.
 *
 *  N2  `#open` holds the lanes with tasks of which a task may be leased, in order of their turns: without fair turns in the
 *      order of their first PIDs. Once a request has named kinds, `#ofKinds` holds them by kind, too.
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
  #payloads = new PayloadSlabs();
  /** By `laneId`. */
  readonly #lanes = new Map<string, Lane>();
  readonly #open = new OrderedSet<Lane>([], compare);
  #ofKinds: Map<string, OrderedSet<Lane>> | undefined;
  /** Keys with tasks of which a limit is used up. Those that are held back for the longest time come first. */
  readonly #held = new Set<Lane>();
  /** Available tasks with these keys. Those of a lane that is not counted are those that were last known in memory. */
  heldTasks = 0;
  /** Tasks without a key. It has no tasks itself: those without a kind are in the head of the queue. */
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
    return this.tasksInMemory * TASK_BYTES + this.#payloads.bytes;
  }

  keepPayload(data: Uint8Array, place: Place): void {
    if (this.#payloads.bytes + data.byteLength <= MOST_PAYLOAD_BYTES) this.#payloads.keep(data, place);
  }

  dropPayload(place: Place): void {
    this.#payloads.drop(place);
  }

  /** Sheds the tasks of those that are held back, then of those whose turns come last: a quarter or more, as it looks at many. */
  shed(bytes: number): void {
    const target = Math.max(0, this.bytes - Math.max(bytes, this.bytes / 4));
    for (const lane of this.#held) {
      if (this.bytes <= target) return;
      lane.shed();
      for (const other of lane.kinds ?? NONE) other.shed();
    }
    for (const at = this.#open.rBegin(), end = this.#open.rEnd(); !at.equals(end); at.next()) {
      if (this.bytes <= target) return;
      at.pointer.shed();
    }
  }

  /** How many tasks of a lane are in memory at most. */
  get kept(): number {
    return Math.max(KEPT, Math.min(MOST_KEPT, Math.floor(KEPT_IN_ALL / Math.max(1, this.#lanes.size))));
  }

  /** True if it remembers what was spent on keys that have no tasks any more. */
  get remembers(): boolean {
    return this.#owner.settings.fair !== undefined && this.#aheadUpTo > this.time;
  }

  /** True if tasks in lanes may be leased, or must be read first to know. */
  get isOpen(): boolean {
    return !this.isReady || !this.#open.empty();
  }

  /** True if all is known that the limits of the queue count. */
  get isReady(): boolean {
    if (!this.isLoaded) return false;
    for (const { keys } of this.#owner.limits ?? NONE) if (keys !== undefined && keys.unknown.size > 0) return false;
    return true;
  }

  /** As `isOpen`, for tasks of these kinds. */
  offers(kinds: KindFilter): boolean {
    if (!this.isReady) return true;
    return !kinds.among(this.#openByKind).next().done;
  }

  /** How many keys limits hold back. */
  get heldKeys(): number {
    return this.#held.size;
  }

  /** The kinds of the available tasks with a key. Undefined: it is not known yet which they are. */
  kindsOf(limitKey: string): readonly string[] | undefined {
    if (!this.isLoaded) return undefined;
    const ofKey = limitKey === '' ? this.#plain : this.#lanes.get(limitKey);
    return ofKey?.kinds?.map(({ kind }) => kind) ?? NONE;
  }

  /** The limits that hold back tasks of keys, and since when. Of very many keys it looks at the first ones. */
  get heldSince(): ReadonlyMap<KeyUses, Instant> {
    const since = new Map<KeyUses, Instant>();
    let looked = 0;
    for (const { uses } of this.#held) {
      if (++looked > MOST_LOOKED_AT) break;
      for (const [keys, { usedUpSince }] of uses) {
        if (usedUpSince !== undefined && usedUpSince < (since.get(keys) ?? NEVER)) since.set(keys, usedUpSince);
      }
    }
    return since;
  }

  /** A task has changed. Call it when the ledger counts the change. `data`: its payload, if it is in memory. */
  note(change: TaskChange, data: Uint8Array | undefined, now: Instant): void {
    // What changes before the lanes are loaded is pending, and found when they are.
    if (!this.isLoaded) return;
    this.#now = Math.max(this.#now, now);
    const earlier = change.kind === 'enqueue' ? undefined : change.before;
    const after = change.kind === 'dequeue' ? undefined : change.after;
    const [from, to] = [earlier && laneOf(earlier), after && laneOf(after)];
    if (earlier !== undefined && after !== undefined && isSameLane(from, to)) {
      this.#noteIn(this.#laneFor(to), change.pid, earlier, after, data);
      return;
    }
    const [earlierLane, lane] = [earlier && this.#laneFor(from), after && this.#laneFor(to)];
    if (earlierLane !== undefined) this.#noteIn(earlierLane, change.pid, earlier, undefined, undefined);
    if (lane !== undefined) this.#noteIn(lane, change.pid, undefined, after, data);
  }

  #noteIn(
    lane: Lane,
    pid: Pid,
    earlier: TaskState | undefined,
    after: TaskState | undefined,
    data: Uint8Array | undefined,
  ): void {
    const { ofKey } = lane;
    const wasLeased = earlier !== undefined && isLeased(earlier);
    const isNowLeased = after !== undefined && isLeased(after);
    const more = (isNowLeased ? 1 : 0) - (wasLeased ? 1 : 0);
    const started = isNowLeased && earlier?.token !== after.token ? 1 : 0;
    const { fair } = this.#owner.settings;
    if (more !== 0) {
      if (fair !== undefined) this.#spend(ofKey);
      if (started > 0) this.time = Math.max(this.time, ofKey.time);
      if (more < 0 && earlier !== undefined) this.#ended(ofKey, earlier);
      ofKey.leased += more;
    }
    const wasAvailable = earlier?.visibility.kind === 'available';
    const isAvailable = after?.visibility.kind === 'available';
    if (lane === this.#plain) {
      const begins = isAvailable && !wasAvailable && this.#owner.ledger.plain === 1 && !lane.isKeyOpen;
      if (begins) lane.time = Math.max(lane.time, this.time);
    } else {
      if (isAvailable) lane.put(pid, after, data);
      else if (wasAvailable) lane.remove(pid);
      if (wasAvailable !== isAvailable) lane.count(isAvailable ? 1 : -1);
      if (more !== 0 || started > 0) for (const [keys, use] of ofKey.uses) keys.note(use, more, started);
      this.settle(lane);
    }
    // With less work of their key other kinds of it may come earlier.
    if (more < 0 && fair !== undefined && ofKey.kinds !== undefined) this.#settleKey(ofKey);
  }

  #spend(lane: Lane): void {
    lane.spend(this.#now, this.#owner.settings.fair?.weightOf(lane.limitKey) ?? 1);
  }

  #ended(lane: Lane, { visibility }: TaskState): void {
    if (this.#owner.settings.fair === undefined || visibility.kind !== 'hidden' || !visibility.lease) return;
    const afterMs = Math.max(0, this.#now - visibility.lease.since);
    lane.ended(afterMs);
    this.#meanMs = meanAfter(this.#meanMs, afterMs);
  }

  #laneFor(name: LaneName | undefined): Lane {
    return name === undefined ? this.#plain : this.#laneOf(name, true);
  }

  /** `joins`: a new key counts in the limits of the queue. */
  #laneOf(name: LaneName, joins: boolean): Lane {
    const id = laneId(name);
    let lane = this.#lanes.get(id);
    if (lane !== undefined) return lane;
    const { limitKey, kind } = name;
    if (!kind) {
      lane = new Lane(this, limitKey, this.#now);
      const ahead = this.#ahead.get(limitKey);
      if (ahead !== undefined) {
        this.#ahead.delete(limitKey);
        lane.time = Math.max(lane.time, ahead.time);
        lane.meanMs = ahead.meanMs;
      }
      // It is not one of the lanes yet: a lane without tasks goes when a limit tells it of a change.
      if (joins) this.#join(lane);
    } else {
      const ofKey = limitKey === '' ? this.#plain : this.#laneOf({ limitKey }, joins);
      lane = new Lane(this, limitKey, this.#now, kind, ofKey);
      ofKey.kinds ??= [];
      ofKey.kinds.push(lane);
    }
    this.#lanes.set(id, lane);
    return lane;
  }

  /** Remembers what was spent on the key of a lane that ends, until as much was spent on others. */
  #remember({ limitKey, time, meanMs }: Lane): void {
    if (this.#owner.settings.fair === undefined || time <= this.time) return;
    this.#ahead.set(limitKey, { time, meanMs });
    this.#aheadUpTo = Math.max(this.#aheadUpTo, time);
    if (this.#ahead.size <= MOST_AHEAD) return;
    for (const [other, ahead] of this.#ahead) if (ahead.time <= this.time) this.#ahead.delete(other);
    for (const other of this.#ahead.keys()) {
      if (this.#ahead.size <= MOST_AHEAD / 2) break;
      this.#ahead.delete(other);
    }
  }

  /** The limits of the key of a lane: of limits of the same queues only the one that names it best. */
  #usesOf({ limitKey: key }: Lane): readonly UseOfLimit[] {
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

  /** A key counts in its limits, and in no others any more. */
  #join(lane: Lane): void {
    const before = lane.uses;
    const after = this.#usesOf(lane);
    // One by one: a limit that is used up settles the lane, and what it counts then is told to those in `uses`. Another limit is
    // not one of them until it has joined, when it gets the whole count.
    for (const use of after) {
      if (hasLimit(before, use)) continue;
      lane.uses = [...lane.uses, use];
      use[0].join(use[1], lane, lane.leased);
    }
    for (const use of before) {
      if (hasLimit(after, use)) continue;
      lane.uses = lane.uses.filter((other) => other !== use);
      use[0].leave(use[1], lane, lane.leased);
    }
    lane.uses = after;
  }

  #leave(lane: Lane): void {
    const { uses } = lane;
    lane.uses = NONE;
    for (const [keys, use] of uses) keys.leave(use, lane, lane.leased);
  }

  /** The limits of the queue have changed. */
  limited(): void {
    for (const lane of [...this.#lanes.values()]) {
      if (lane.ofKey !== lane) continue;
      this.#join(lane);
      this.#settleKey(lane);
    }
  }

  /** The settings of the queue have changed. Weights apply to the time from now on. */
  reorder(before: FairTurns | undefined, now: Instant): void {
    this.#now = Math.max(this.#now, now);
    const lanes = [...this.#lanes.values()];
    for (const lane of [this.#plain, ...lanes]) {
      if (lane.ofKey !== lane) continue;
      if (before === undefined) lane.countFrom(this.#now);
      else lane.spend(this.#now, before.weightOf(lane.limitKey));
    }
    for (const lane of lanes) this.settle(lane);
  }

  /** Ends the lanes, because the queue has no tasks in lanes, or ends itself. */
  end(): void {
    for (const lane of this.#lanes.values()) this.#leave(lane);
    this.tasksInMemory = 0;
    this.#payloads = new PayloadSlabs();
    this.#lanes.clear();
    this.#open.clear();
    this.#ofKinds = undefined;
    this.#held.clear();
    this.heldTasks = 0;
    // Those in the store have gone, too.
    for (const { keys } of this.#owner.limits ?? NONE) keys?.unknown.delete(this.#owner);
  }

  /** Settles all lanes of a key. */
  #settleKey(ofKey: Lane): void {
    // A copy, because a lane without tasks leaves.
    for (const lane of ofKey.kinds === undefined ? NONE : [...ofKey.kinds]) this.settle(lane);
    if (ofKey !== this.#plain) this.settle(ofKey);
  }

  /** Takes or gives a lane its place among those of which tasks may be leased. */
  settle(lane: Lane): void {
    const { ofKey } = lane;
    const { isKeyWaiting } = ofKey;
    const more = (lane.available ?? lane.tasks.length) - lane.counted;
    const turned = Number(isKeyWaiting) - Number(ofKey.countsAsWaiting);
    if (more !== 0 || turned !== 0) {
      lane.counted += more;
      ofKey.availableOfKey += more;
      ofKey.countsAsWaiting = isKeyWaiting;
      if (ofKey.isHeld) this.heldTasks += more;
      for (const [keys, use] of ofKey.uses) keys.noteWaiting(use, turned, more);
    }
    if (!isKeyWaiting) this.#hold(ofKey, false);
    if (!lane.isWaiting) {
      this.#close(lane);
      this.#forgetWhenIdle(lane);
      return;
    }
    for (const [keys, use] of ofKey.uses) {
      if (keys.roomOf(use) > 0) continue;
      this.#close(lane);
      this.#hold(ofKey, true);
      return;
    }
    this.#hold(ofKey, false);
    if (lane.turn === undefined && !this.#isInTurn(ofKey)) ofKey.time = Math.max(ofKey.time, this.time);
    this.#openAt(lane);
  }

  #hold(ofKey: Lane, isHeld: boolean): void {
    if (ofKey.isHeld === isHeld) return;
    ofKey.isHeld = isHeld;
    if (isHeld) this.#held.add(ofKey);
    else this.#held.delete(ofKey);
    this.heldTasks += isHeld ? ofKey.availableOfKey : -ofKey.availableOfKey;
  }

  /** Whether other tasks of the key may be leased. */
  #isInTurn(ofKey: Lane): boolean {
    return ofKey.isKeyOpen || (ofKey === this.#plain && this.#owner.ledger.plain > 0);
  }

  #forgetWhenIdle(lane: Lane): void {
    if (lane === this.#plain || lane.kinds !== undefined || lane.leased > 0) return;
    const id = laneId(lane);
    if (this.#lanes.get(id) !== lane) return;
    lane.shed();
    this.#lanes.delete(id);
    const { ofKey } = lane;
    if (ofKey === lane) {
      this.#leave(lane);
      this.#remember(lane);
      return;
    }
    const others = ofKey.kinds?.filter((other) => other !== lane) ?? [];
    ofKey.kinds = others.length === 0 ? undefined : others;
    if (others.length === 0 && !ofKey.isWaiting) this.#forgetWhenIdle(ofKey);
  }

  /** The limits of a key allow leases, or no more. */
  changed(ofKey: Lane): void {
    const wasOpen = ofKey.isKeyOpen;
    this.#settleKey(ofKey);
    if (!wasOpen && ofKey.isKeyOpen) this.#owner.opened();
  }

  #close(lane: Lane): void {
    if (lane.turn === undefined) return;
    this.#open.eraseElementByKey(lane);
    const ofKind = this.#ofKinds?.get(lane.kind);
    ofKind?.eraseElementByKey(lane);
    if (ofKind?.empty()) this.#ofKinds?.delete(lane.kind);
    lane.turn = undefined;
  }

  /** Gives it the place of its turn. Most changes of a lane leave it where it is. */
  #openAt(lane: Lane): void {
    const turn = this.#turnOf(lane, lane.tasks[0]?.pid ?? lane.firstMissing ?? ('' as Pid), 0);
    if (lane.turn !== undefined && before(lane.turn, turn) === 0) return;
    this.#close(lane);
    lane.turn = turn;
    this.#open.insert(lane);
    if (this.#ofKinds !== undefined) addTo(this.#ofKinds, lane);
  }

  /** The lanes of these kinds of which a task may be leased, in the order of their first ones. */
  #frontsOf(kinds: KindFilter): Front[] {
    const ofKinds = this.#openByKind;
    const fronts: Front[] = [];
    for (const kind of kinds.among(ofKinds)) {
      const ofKind = ofKinds.get(kind);
      if (ofKind !== undefined) fronts.push(new Front(ofKind));
    }
    return fronts.sort(byLane);
  }

  /** The lanes of which a task may be leased, by kind. */
  get #openByKind(): ReadonlyMap<string, OrderedSet<Lane>> {
    const known = this.#ofKinds;
    if (known !== undefined) return known;
    const ofKinds = new Map<string, OrderedSet<Lane>>();
    this.#open.forEach((lane) => {
      addTo(ofKinds, lane);
    });
    this.#ofKinds = ofKinds;
    return ofKinds;
  }

  /** `more`: tasks that are about to be leased. */
  #turnOf({ ofKey: lane }: Lane, pid: Pid, more: number): Turn {
    const { fair } = this.#owner.settings;
    if (fair === undefined) return { time: 0, leased: 0, pid };
    this.#spend(lane);
    const weight = fair.weightOf(lane.limitKey);
    const expected = lane.expected(more + 1, this.#meanMs ?? FIRST_ATTEMPT_MS);
    return { time: lane.time + expected / weight, leased: (lane.leased + more) / weight, pid };
  }

  /**
   * The tasks that a request may lease, in order. The lanes must not change meanwhile. Afterwards `missing` says if something
   * must be read to go on. @param taken how many tasks of keys the request gets of other queues. Those of this queue are added.
   * @param kinds undefined: all tasks.
   */
  *head(
    now: Instant,
    maxPid: Pid | undefined,
    taken: Map<KeyUse, number>,
    kinds: KindFilter | undefined,
  ): Generator<ReadyTask> {
    this.#now = Math.max(this.#now, now);
    this.missing = this.isReady ? undefined : 'lanes';
    if (this.missing !== undefined) return;
    /** In order of their turns. */
    const serving: Serving[] = [];
    const begun: Lane[] = [];
    /** Lanes that are not served yet, in sets, in the order of their first ones. */
    const fronts = kinds === undefined ? [new Front(this.#open)] : this.#frontsOf(kinds);
    const hasRoom = ({ ofKey }: Lane): boolean =>
      ofKey.uses.every(([keys, use]) => keys.roomOf(use) > (taken.get(use) ?? 0));
    const counts = new Map<Lane, number>();
    const place = (one: Serving): void => {
      const { lane, next } = one;
      const pid = next?.pid ?? lane.firstMissing;
      if (pid === undefined || (maxPid !== undefined && pid > maxPid) || !hasRoom(lane)) return;
      insert(serving, one, this.#turnOf(lane, pid, counts.get(lane.ofKey) ?? 0));
    };
    try {
      if (kinds?.acceptsNone !== false) {
        this.#plain.firstMissing = this.#owner.plainMissing;
        place(new Serving(this.#plain, this.#owner.plainHead()[Symbol.iterator]()));
      }
      for (;;) {
        const [first] = serving;
        const [front] = fronts;
        const begins = front && this.#laneUpTo(front, maxPid);
        // Time goes on while tasks are leased, so a lane may come later than when it got its place, and never earlier.
        if (front && begins?.turn && (first?.turn === undefined || before(begins.turn, first.turn) < 0)) {
          begun.push(begins);
          place(new Serving(begins));
          front.next();
          if (fronts.length > 1) moveBack(fronts);
          continue;
        }
        if (first === undefined) return;
        const { lane, next } = first;
        if (next === undefined) {
          this.missing = lane;
          return;
        }
        yield next;
        serving.shift();
        const { ofKey } = lane;
        for (const [, use] of ofKey.uses) taken.set(use, (taken.get(use) ?? 0) + 1);
        counts.set(ofKey, (counts.get(ofKey) ?? 0) + 1);
        first.goOn();
        place(first);
        if (ofKey.kinds === undefined) continue;
        // Its other kinds have their turns later, or no room.
        const others = serving.filter((other) => other.lane.ofKey === ofKey && other.lane !== lane);
        for (const other of others) {
          serving.splice(serving.indexOf(other), 1);
          place(other);
        }
      }
    } finally {
      this.#plain.firstMissing = undefined;
      if (this.#owner.settings.fair !== undefined) for (const lane of begun) this.#openAt(lane);
    }
  }

  /** The lane whose turn is next. Without fair turns there is none if the next tasks are behind `maxPid`. */
  #laneUpTo({ lane }: Front, maxPid: Pid | undefined): Lane | undefined {
    if (maxPid === undefined || lane?.turn === undefined || this.#owner.settings.fair !== undefined) return lane;
    return lane.turn.pid > maxPid ? undefined : lane;
  }

  /** False: tasks of lanes are missing, and none of those without a key and a kind. */
  get isPlainMissing(): boolean {
    return !(this.missing instanceof Lane) || this.missing === this.#plain;
  }

  /** Lanes of which tasks must be read, and those that will be next, up to `most`. */
  toRead(most: number): LaneToRead[] {
    const found = new Set<Lane>();
    const { missing } = this;
    let open: OrderedSet<Lane> | undefined;
    if (missing instanceof Lane && missing !== this.#plain) {
      found.add(missing);
      open = this.#ofKinds?.get(missing.kind);
    }
    open ??= this.#open;
    let looked = 0;
    for (const at = open.begin(), end = open.end(); !at.equals(end); at.next()) {
      if (found.size >= most || ++looked > MOST_LOOKED_AT) break;
      if (at.pointer.tasks.length < SHORT) found.add(at.pointer);
    }
    const toRead: LaneToRead[] = [];
    for (const lane of found) if (lane.firstMissing !== undefined) toRead.push({ lane, from: lane.firstMissing });
    return toRead;
  }

  /** Adds what was read of a lane. `tasks`: available ones from `from` on, of which the store or memory has no later change. */
  add({ lane: name, from }: LaneToRead, tasks: readonly LaneTask[], to: Pid | undefined): void {
    const lane = this.#lanes.get(laneId(name));
    // What was taken out of memory since is read again.
    if (lane === undefined || lane.firstMissing !== from) return;
    lane.firstMissing = to;
    if (to === undefined) lane.available = lane.tasks.length + tasks.length;
    for (const { pid, state, data } of tasks) lane.put(pid, state, data);
    this.settle(lane);
  }

  /** How many available tasks are in lanes that are not counted. */
  get #uncounted(): number {
    let { keyedReady: left } = this.#owner.ledger;
    for (const { available = 0 } of this.#lanes.values()) left -= available;
    return left;
  }

  /** Adds all that the store and memory have. */
  load(found: Iterable<FoundLane>, pending: Iterable<LaneTask>, now: Instant): void {
    this.#now = Math.max(this.#now, now);
    this.#plain.countFrom(this.#now);
    let leased = 0;
    const uncounted: Lane[] = [];
    for (const { name, leased: ofKey, tasks, firstMissing, others } of found) {
      const lane = this.#laneOf(name, false);
      lane.leased = ofKey;
      leased += ofKey;
      lane.firstMissing = firstMissing;
      lane.available = others === undefined ? undefined : tasks.length + others;
      if (others === undefined) uncounted.push(lane);
      for (const { pid, state, data } of tasks) lane.put(pid, state, data);
    }
    for (const { pid, state, data } of pending) {
      const name = laneOf(state);
      if (name === undefined) continue;
      if (isLeased(state)) {
        if (name.limitKey === '') continue;
        this.#laneOf({ limitKey: name.limitKey }, false).leased++;
        leased++;
      } else if (state.visibility.kind === 'available') {
        const lane = this.#laneOf(name, false);
        lane.put(pid, state, data);
        lane.count(1);
      }
    }
    // Usually there is one with very many tasks, if any.
    const [long] = uncounted;
    if (long !== undefined && uncounted.length === 1) long.available = this.#uncounted;
    this.isLoaded = true;
    this.#plain.leased = this.#owner.ledger.leased - leased;
    for (const { keys } of this.#owner.limits ?? NONE) keys?.unknown.delete(this.#owner);
    const lanes = [...this.#lanes.values()];
    for (const lane of lanes) if (lane.ofKey === lane && (lane.isKeyWaiting || lane.leased > 0)) this.#join(lane);
    for (const lane of lanes) this.settle(lane);
  }
}

function addTo(ofKinds: Map<string, OrderedSet<Lane>>, lane: Lane): void {
  let ofKind = ofKinds.get(lane.kind);
  if (ofKind === undefined) {
    ofKind = new OrderedSet<Lane>([], compare);
    ofKinds.set(lane.kind, ofKind);
  }
  ofKind.insert(lane);
}

/** The next one of lanes that are in order. */
class Front {
  lane: Lane | undefined;
  readonly #at: OrderedSetIterator<Lane>;

  constructor(lanes: OrderedSet<Lane>) {
    this.#at = lanes.begin();
    this.lane = lanes.front();
  }

  next(): void {
    this.#at.next();
    this.lane = this.#at.isAccessible() ? this.#at.pointer : undefined;
  }
}

/** Those without lanes come last. */
function byLane({ lane: a }: Front, { lane: b }: Front): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1;
  return compare(a, b);
}

/** Puts the first one, which has gone on, where it belongs among the others, which are in order. */
function moveBack(fronts: Front[]): void {
  const [front] = fronts.splice(0, 1);
  if (front?.lane === undefined) return;
  const at = fronts.findIndex((other) => byLane(front, other) < 0);
  fronts.splice(at < 0 ? fronts.length : at, 0, front);
}

export interface LaneToRead {
  readonly lane: LaneName;
  readonly from: Pid;
}

/** What the store has of a lane. */
export interface FoundLane {
  readonly name: LaneName;
  leased: number;
  readonly tasks: LaneTask[];
  firstMissing: Pid | undefined;
  /** How many others there are from there on, of which the store or memory has no later change. Undefined: not counted. */
  others: number | undefined;
}
