import type { TaskChange } from '../../domain/atom.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import type { KindFilter } from '../../domain/kind-filter.ts';
import type { FairTurns } from '../../domain/queue-settings.ts';
import { isLeased, type LaneName, laneOf, type TaskState } from '../../domain/task.ts';
import { PayloadSlabs } from '../cache/payload-slabs.ts';
import type { Place } from '../cache/places.ts';
import type { ReadyTask } from '../cache/queue-cache.ts';
import type { Cached } from '../cache/task-cache.ts';
import { HeldKeys } from './held-keys.ts';
import type { KeyUse, KeyUses } from './key-uses.ts';
import {
  before,
  FIRST_ATTEMPT_MS,
  Lane,
  type LaneOwner,
  laneId,
  meanAfter,
  type Turn,
  type UseOfLimit,
} from './lane.ts';
import { OpenLanes } from './open-lanes.ts';

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
/** Keys without tasks whose time is remembered. */
const MOST_AHEAD = 10_000;
const NONE: readonly never[] = [];

/** An available task for a lane. */
export interface LaneTask {
  readonly pid: Pid;
  readonly state: TaskState;
  /** Its payload, if it is in memory. */
  readonly data: Uint8Array | undefined;
}

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

const isSameLane = (a: LaneName | undefined, b: LaneName | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && a.limitKey === b.limitKey && (a.kind || '') === (b.kind || ''));

const hasLimit = (uses: readonly UseOfLimit[], [keys]: UseOfLimit): boolean => uses.some(([other]) => other === keys);

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
 *  N2  `#open` has the lanes with tasks of which a task may be leased, in the order of their turns: without fair turns in the
 *      order of their first PIDs.
 */
export class Lanes implements Cached, LaneOwner {
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
  readonly #open = new OpenLanes();
  /** Keys with tasks of which a limit is used up. */
  readonly held = new HeldKeys();
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
    for (const lane of this.held) {
      if (this.bytes <= target) return;
      lane.shed();
      for (const other of lane.kinds ?? NONE) other.shed();
    }
    for (const lane of this.#open.backwards()) {
      if (this.bytes <= target) return;
      lane.shed();
    }
  }

  get kept(): number {
    return Math.max(KEPT, Math.min(MOST_KEPT, Math.floor(KEPT_IN_ALL / Math.max(1, this.#lanes.size))));
  }

  /** True if it remembers what was spent on keys that have no tasks any more. */
  get remembers(): boolean {
    return this.#owner.settings.fair !== undefined && this.#aheadUpTo > this.time;
  }

  /** True if tasks in lanes may be leased, or must be read first to know. */
  get isOpen(): boolean {
    return !this.isReady || !this.#open.isEmpty;
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
    return this.#open.has(kinds);
  }

  /** The kinds of the available tasks with a key. Undefined: it is not known yet which they are. */
  kindsOf(limitKey: string): readonly string[] | undefined {
    if (!this.isLoaded) return undefined;
    const ofKey = limitKey === '' ? this.#plain : this.#lanes.get(limitKey);
    return ofKey?.kinds?.map(({ kind }) => kind) ?? NONE;
  }

  /** The limits in which a key counts. */
  usesOf(limitKey: string): readonly UseOfLimit[] {
    return this.#lanes.get(limitKey)?.uses ?? NONE;
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
    this.held.clear();
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
      this.held.count(ofKey, more);
      for (const [keys, use] of ofKey.uses) keys.noteWaiting(use, turned, more);
    }
    if (!isKeyWaiting) this.held.delete(ofKey);
    if (!lane.isWaiting) {
      this.#open.remove(lane);
      this.#forgetWhenIdle(lane);
      return;
    }
    for (const [keys, use] of ofKey.uses) {
      if (keys.roomOf(use) > 0) continue;
      this.#open.remove(lane);
      this.held.add(ofKey);
      return;
    }
    this.held.delete(ofKey);
    if (lane.turn === undefined && !this.#isInTurn(ofKey)) ofKey.time = Math.max(ofKey.time, this.time);
    this.#openAt(lane);
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

  changed(ofKey: Lane): void {
    const wasOpen = ofKey.isKeyOpen;
    this.#settleKey(ofKey);
    if (!wasOpen && ofKey.isKeyOpen) this.#owner.opened();
  }

  #openAt(lane: Lane): void {
    this.#open.put(lane, this.#turnOf(lane, lane.tasks[0]?.pid ?? lane.firstMissing ?? ('' as Pid), 0));
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
    /** Lanes that are not served yet. */
    const open = this.#open.walk(kinds);
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
        const begins = this.#upTo(open.lane, maxPid);
        // Time goes on while tasks are leased, so a lane may come later than when it got its place, and never earlier.
        if (begins?.turn && (first?.turn === undefined || before(begins.turn, first.turn) < 0)) {
          begun.push(begins);
          place(new Serving(begins));
          open.goOn();
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
  #upTo(lane: Lane | undefined, maxPid: Pid | undefined): Lane | undefined {
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
    const first = missing instanceof Lane && missing !== this.#plain ? missing : undefined;
    if (first !== undefined) found.add(first);
    let looked = 0;
    for (const lane of this.#open.firstLike(first)) {
      if (found.size >= most || ++looked > MOST_LOOKED_AT) break;
      if (lane.tasks.length < SHORT) found.add(lane);
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
