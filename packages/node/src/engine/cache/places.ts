import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Pid } from '../../domain/ids.ts';
import { AVAILABLE, type TaskState } from '../../domain/task.ts';
import { FIRST_PID } from '../../log/queue-ledger.ts';
import { type Kept, payloadIn } from './payload-slabs.ts';

/** A task in memory; its payload may not be. */
export interface CachedTask {
  readonly state: TaskState;
  readonly data: Uint8Array | undefined;
}

const NO_DATA = new Uint8Array(0);

/** An available task in its place. One flat object: there are hundreds of thousands, and V8 marks every one. */
export class Place implements Kept {
  pid: Pid;
  state: TaskState;
  slab: Kept['slab'];
  at = 0;

  constructor(pid: Pid, state: TaskState) {
    this.pid = pid;
    this.state = state;
    this.slab = undefined;
  }

  /** Made for each who asks. */
  get task(): CachedTask {
    const { dataBytes } = this.state;
    return { state: this.state, data: dataBytes === 0 ? NO_DATA : payloadIn(this, dataBytes) };
  }
}

const compare = (a: Place, b: Place): number => (a.pid < b.pid ? -1 : a.pid > b.pid ? 1 : 0);

const NO_STATE: TaskState = {
  enqueuedAt: 0 as TaskState['enqueuedAt'],
  dataBytes: 0,
  attempts: 0,
  token: 0 as TaskState['token'],
  retry: undefined,
  visibility: AVAILABLE,
};

/** What is sought; looked at only during the search: one serves all. */
const sought = new Place(FIRST_PID, NO_STATE);

function keyOf(pid: Pid): Place {
  sought.pid = pid;
  return sought;
}

/** So many are kept in an array of just their number, which takes less memory than a tree without any. */
const FEW = 8;
const NONE: readonly Place[] = [];

/** Available tasks in order. Most of many queues have few. */
export class Places {
  #few: readonly Place[] = NONE;
  /** Instead, from the moment they were more until none is left. A set: the iterators of the library's map make proxies. */
  #many: OrderedSet<Place> | undefined;

  get size(): number {
    return this.#many?.size() ?? this.#few.length;
  }

  get first(): Place | undefined {
    return this.#many ? this.#many.front() : this.#few[0];
  }

  get last(): Place | undefined {
    return this.#many ? this.#many.back() : this.#few.at(-1);
  }

  find(pid: Pid): Place | undefined {
    if (this.#many === undefined) {
      for (const place of this.#few) if (place.pid === pid) return place;
      return undefined;
    }
    const at = this.#many.find(keyOf(pid));
    return at.isAccessible() ? at.pointer : undefined;
  }

  /** Puts a place in, unless there is one of its PID. Returns the one that is there. */
  insert(place: Place): Place {
    if (this.#many !== undefined) {
      // Most are new, and then this is the only search.
      const before = this.#many.size();
      return this.#many.insert(place) > before ? place : (this.find(place.pid) ?? place);
    }
    const known = this.find(place.pid);
    if (known !== undefined) return known;
    const behind = this.#few.findIndex(({ pid }) => pid > place.pid);
    const few = this.#few.toSpliced(behind < 0 ? this.#few.length : behind, 0, place);
    if (few.length <= FEW) {
      this.#few = few;
    } else {
      this.#few = NONE;
      this.#many = new OrderedSet(few, compare);
    }
    return place;
  }

  /** Returns what was there. */
  remove(pid: Pid): Place | undefined {
    if (this.#many === undefined) {
      const place = this.find(pid);
      if (place === undefined) return undefined;
      this.#few = this.#few.length === 1 ? NONE : this.#few.toSpliced(this.#few.indexOf(place), 1);
      return place;
    }
    const at = this.#many.find(keyOf(pid));
    if (!at.isAccessible()) return undefined;
    const place = at.pointer;
    this.#many.eraseElementByIterator(at);
    if (this.#many.empty()) this.#many = undefined;
    return place;
  }

  /** They must not change meanwhile. */
  *[Symbol.iterator](): Generator<Place> {
    if (this.#many === undefined) {
      yield* this.#few;
      return;
    }
    // Not `for of` over the set, which would copy all of it first.
    const at = this.#many.begin();
    for (const end = this.#many.end(); !at.equals(end); at.next()) yield at.pointer;
  }
}
