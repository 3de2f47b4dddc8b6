import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Pid } from '../../domain/ids.ts';
import { AVAILABLE, type TaskState } from '../../domain/task.ts';
import { FIRST_PID } from '../../log/queue-ledger.ts';
import { type Kept, payloadIn } from './payload-slabs.ts';

/** A task in memory. `data` is undefined if the payload is not in memory. */
export interface CachedTask {
  readonly state: TaskState;
  readonly data: Uint8Array | undefined;
}

const NO_DATA = new Uint8Array(0);

/** An available task with its PID. One flat object, because there are hundreds of thousands and V8 marks each of them. */
export class Place implements Kept {
  pid: Pid;
  state: TaskState;
  memory: Kept['memory'];
  at = 0;

  constructor(pid: Pid, state: TaskState) {
    this.pid = pid;
    this.state = state;
    this.memory = undefined;
  }

  /** A new object on each call. */
  get task(): CachedTask {
    const { dataBytes } = this.state;
    return { state: this.state, data: dataBytes === 0 ? NO_DATA : payloadIn(this, dataBytes) };
  }
}

const compare = (a: Place, b: Place): number => (a.pid < b.pid ? -1 : a.pid > b.pid ? 1 : 0);

const NO_STATE: TaskState = {
  enqueuedAt: 0 as TaskState['enqueuedAt'],
  dueAt: 0 as TaskState['dueAt'],
  dataBytes: 0,
  headerBytes: 0,
  attempts: 0,
  token: 0 as TaskState['token'],
  retry: undefined,
  visibility: AVAILABLE,
  history: undefined,
};

/** The key of a search. All searches share it, because it is only used during the search. */
const sought = new Place(FIRST_PID, NO_STATE);

function keyOf(pid: Pid): Place {
  sought.pid = pid;
  return sought;
}

/** Up to this many places are kept in an array of exact size: it takes less memory than an empty tree. */
const FEW = 8;
/** A single place needs no array. */
type Few = Place | readonly Place[];
const NONE: readonly Place[] = [];

const listOf = (few: Few): readonly Place[] => (few instanceof Place ? [few] : few);

/** Available tasks in order of PID. Optimised for few, because most queues have few. */
export class Places {
  #few: Few = NONE;
  /**
   * Used instead of `#few` once there are more than `FEW`, until it is empty. A set, because the iterators of the library's map
   * create proxies.
   */
  #many: OrderedSet<Place> | undefined;

  get size(): number {
    if (this.#many) return this.#many.size();
    return this.#few instanceof Place ? 1 : this.#few.length;
  }

  get first(): Place | undefined {
    return this.#many ? this.#many.front() : listOf(this.#few)[0];
  }

  get last(): Place | undefined {
    return this.#many ? this.#many.back() : listOf(this.#few).at(-1);
  }

  find(pid: Pid): Place | undefined {
    if (this.#many === undefined) {
      return listOf(this.#few).find((place) => place.pid === pid);
    }
    const at = this.#many.find(keyOf(pid));
    return at.isAccessible() ? at.pointer : undefined;
  }

  /** Inserts a place unless there is one with its PID. Returns the place that is there now. */
  insert(place: Place): Place {
    if (this.#many !== undefined) {
      // Most places are new: then this insertion is the only search.
      const before = this.#many.size();
      return this.#many.insert(place) > before ? place : (this.find(place.pid) ?? place);
    }
    const known = this.find(place.pid);
    if (known !== undefined) return known;
    const before = listOf(this.#few);
    const behind = before.findIndex(({ pid }) => pid > place.pid);
    const few = before.toSpliced(behind < 0 ? before.length : behind, 0, place);
    if (few.length <= FEW) {
      this.#setFew(few);
    } else {
      this.#few = NONE;
      this.#many = new OrderedSet(few, compare);
    }
    return place;
  }

  /** Returns the removed place, if there was one. */
  remove(pid: Pid): Place | undefined {
    if (this.#many === undefined) {
      const place = this.find(pid);
      if (place === undefined) return undefined;
      const few = listOf(this.#few);
      this.#setFew(few.toSpliced(few.indexOf(place), 1));
      return place;
    }
    const at = this.#many.find(keyOf(pid));
    if (!at.isAccessible()) return undefined;
    const place = at.pointer;
    this.#many.eraseElementByIterator(at);
    if (this.#many.empty()) this.#many = undefined;
    return place;
  }

  #setFew(few: readonly Place[]): void {
    const [first = NONE] = few;
    this.#few = few.length > 1 ? few : first;
  }

  [Symbol.iterator](): Generator<Place> {
    return this.after(undefined);
  }

  /** The places with larger PIDs. Undefined: all. The places must not change during the iteration. */
  *after(pid: Pid | undefined): Generator<Place> {
    if (this.#many === undefined) {
      for (const place of listOf(this.#few)) if (pid === undefined || place.pid > pid) yield place;
      return;
    }
    // `for of` over the set would first copy all of it.
    const at = pid === undefined ? this.#many.begin() : this.#many.upperBound(keyOf(pid));
    for (const end = this.#many.end(); !at.equals(end); at.next()) yield at.pointer;
  }
}
