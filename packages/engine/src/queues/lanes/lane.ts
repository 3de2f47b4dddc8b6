import type { Pid } from '../../domain/ids.ts';
import type { LaneName, TaskState } from '../../domain/task.ts';
import { Place } from '../cache/places.ts';
import type { KeyUse, KeyUses, LimitedLane } from './key-uses.ts';

/** How long the first attempt of a key is expected to take, in ms: little, so that a new key is tried soon. */
export const FIRST_ATTEMPT_MS = 1;
/** A key is not expected to take longer than so many times what others take before one of its attempts has ended. */
const MOST_OF_OTHERS = 8;
/** The mean time of attempts follows the last ones: the latest counts as one of so many. */
const MEAN_OF = 8;
const NONE: readonly never[] = [];
/** Of all lanes without tasks in memory. Never changed. */
const NO_TASKS: Place[] = [];

/** A limit of keys, and what one key uses of it. */
export type UseOfLimit = readonly [KeyUses, KeyUse];

/** Whose turn it is. Lower ones come first. */
export interface Turn {
  /**
   * Time spent on tasks of the key, and expected to be spent on those that are leased and on the next one, divided by its weight,
   * in ms. 0 without fair turns.
   */
  readonly time: number;
  /** Tasks of the key that are leased, divided by its weight. 0 without fair turns. */
  readonly leased: number;
  readonly pid: Pid;
}

export const before = (a: Turn, b: Turn): number =>
  a.time - b.time || a.leased - b.leased || (a.pid === b.pid ? 0 : a.pid < b.pid ? -1 : 1);

/** The names of lanes that stand for them in maps. No key has U+FFFD. */
export const laneId = ({ limitKey, kind }: LaneName): string => (kind ? `\uFFFD${kind}\uFFFD${limitKey}` : limitKey);

/** The lanes of a queue, as far as one of them uses them. */
export interface LaneOwner {
  /** How many tasks of all lanes are in memory. */
  tasksInMemory: number;
  /** How many tasks of a lane are in memory at most. */
  readonly kept: number;
  /** Time of the lane that was served last, where that of a new one begins. */
  readonly time: number;
  keepPayload(data: Uint8Array, place: Place): void;
  dropPayload(place: Place): void;
  /** The limits of a key allow leases, or no more. */
  changed(ofKey: Lane): void;
}

/**
 * The available tasks of one queue with one key and one kind, in order. The lane of a key without a kind also has what all tasks
 * with this key have in common, whatever their kind.
 *
 *  N1  Every available task of the lane with a PID below `firstMissing` is in `tasks`. Undefined: all are.
 */
export class Lane implements LimitedLane, LaneName {
  readonly limitKey: string;
  /** Empty: none. */
  readonly kind: string;
  readonly lanes: LaneOwner;
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
  uses: readonly UseOfLimit[] = NONE;
  /** Time spent on its tasks, divided by its weight, in ms. */
  time: number;
  /** Mean time of its attempts, in ms. Undefined: none has ended. */
  meanMs: number | undefined;
  /** Up to when `time` counts. */
  #timedAt: number;
  /** For how long its leased tasks have been leased, together. */
  #leasedMs = 0;

  constructor(lanes: LaneOwner, limitKey: string, now: number, kind = '', ofKey?: Lane) {
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

/** A mean after one more. */
export const meanAfter = (meanMs: number | undefined, ms: number): number =>
  meanMs === undefined ? ms : meanMs + (ms - meanMs) / MEAN_OF;
