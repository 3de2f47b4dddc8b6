import { OrderedSet } from '@js-sdsl/ordered-set';
import { AVAILABLE, type Pid, type TaskState } from '@taskmaster/server/domain';
import { FIRST_PID } from '../../../log/queue-ledger.ts';
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
  memory: Kept['memory'];
  at = 0;

  constructor(pid: Pid, state: TaskState) {
    this.pid = pid;
    this.state = state;
    this.memory = undefined;
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
  dueAt: 0 as TaskState['dueAt'],
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
/** One needs no array. */
type Few = Place | readonly Place[];
const NONE: readonly Place[] = [];

const listOf = (few: Few): readonly Place[] => (few instanceof Place ? [few] : few);

/** Available tasks in order. Most of many queues have few. */
export class Places {
  #few: Few = NONE;
  /** Instead, from the moment they were more until none is left. A set: the iterators of the library's map make proxies. */
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

  /** Puts a place in, unless there is one of its PID. Returns the one that is there. */
  insert(place: Place): Place {
    if (this.#many !== undefined) {
      // Most are new, and then this is the only search.
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

  /** Returns what was there. */
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

  /** They must not change meanwhile. */
  *[Symbol.iterator](): Generator<Place> {
    if (this.#many === undefined) {
      yield* listOf(this.#few);
      return;
    }
    // Not `for of` over the set, which would copy all of it first.
    const at = this.#many.begin();
    for (const end = this.#many.end(); !at.equals(end); at.next()) yield at.pointer;
  }
}
