import { OrderedSet, type OrderedSetIterator } from '@js-sdsl/ordered-set';
import type { KindFilter } from '../../domain/kind-filter.ts';
import { before, type Lane, type Turn } from './lane.ts';

const order = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

const compare = (a: Lane, b: Lane): number =>
  (a.turn && b.turn ? before(a.turn, b.turn) : 0) || order(a.limitKey, b.limitKey) || order(a.kind, b.kind);

/** The lanes of one queue with tasks of which a task may be leased, in the order of their turns, all of them and by kind. */
export class OpenLanes {
  readonly #all = new OrderedSet<Lane>([], compare);
  /** Undefined until a request has named kinds. */
  #ofKinds: Map<string, OrderedSet<Lane>> | undefined;

  get isEmpty(): boolean {
    return this.#all.empty();
  }

  /** Whether there are lanes of these kinds. */
  has(kinds: KindFilter): boolean {
    return !kinds.among(this.#byKind).next().done;
  }

  /** Gives a lane its place. Most changes of a lane leave it where it is. */
  put(lane: Lane, turn: Turn): void {
    if (lane.turn !== undefined && before(lane.turn, turn) === 0) return;
    this.remove(lane);
    lane.turn = turn;
    this.#all.insert(lane);
    if (this.#ofKinds !== undefined) addTo(this.#ofKinds, lane);
  }

  remove(lane: Lane): void {
    if (lane.turn === undefined) return;
    this.#all.eraseElementByKey(lane);
    const ofKind = this.#ofKinds?.get(lane.kind);
    ofKind?.eraseElementByKey(lane);
    if (ofKind?.empty()) this.#ofKinds?.delete(lane.kind);
    lane.turn = undefined;
  }

  clear(): void {
    this.#all.clear();
    this.#ofKinds = undefined;
  }

  /** Those of these kinds, in order. Undefined: all. They must not change meanwhile. */
  walk(kinds: KindFilter | undefined): OpenWalk {
    if (kinds === undefined) return new OpenWalk([this.#all]);
    const ofKinds = this.#byKind;
    const sets: OrderedSet<Lane>[] = [];
    for (const kind of kinds.among(ofKinds)) {
      const ofKind = ofKinds.get(kind);
      if (ofKind !== undefined) sets.push(ofKind);
    }
    return new OpenWalk(sets);
  }

  /** Those that come first: of the kind of a lane if they are known by kind, otherwise of all. */
  *firstLike(lane: Lane | undefined): Generator<Lane> {
    const lanes = (lane && this.#ofKinds?.get(lane.kind)) ?? this.#all;
    for (const at = lanes.begin(), end = lanes.end(); !at.equals(end); at.next()) yield at.pointer;
  }

  /** Those that come last first. */
  *backwards(): Generator<Lane> {
    for (const at = this.#all.rBegin(), end = this.#all.rEnd(); !at.equals(end); at.next()) yield at.pointer;
  }

  get #byKind(): ReadonlyMap<string, OrderedSet<Lane>> {
    const known = this.#ofKinds;
    if (known !== undefined) return known;
    const ofKinds = new Map<string, OrderedSet<Lane>>();
    this.#all.forEach((lane) => {
      addTo(ofKinds, lane);
    });
    this.#ofKinds = ofKinds;
    return ofKinds;
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

/** Goes over lanes of several sets in the order of their turns. */
export class OpenWalk {
  /** In the order of their lanes. */
  readonly #fronts: Front[];

  constructor(sets: readonly OrderedSet<Lane>[]) {
    this.#fronts = sets.map((lanes) => new Front(lanes));
    if (sets.length > 1) this.#fronts.sort(byLane);
  }

  /** The next lane. Undefined: there are no more. */
  get lane(): Lane | undefined {
    return this.#fronts[0]?.lane;
  }

  goOn(): void {
    const fronts = this.#fronts;
    fronts[0]?.next();
    if (fronts.length > 1) moveBack(fronts);
  }
}

/** The next lane of one set. */
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
