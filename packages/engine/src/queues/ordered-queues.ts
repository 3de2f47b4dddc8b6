import type { QueueName } from '@taskmaster/proto';
import type { QueueFilter } from '../domain/commands.ts';
import type { Queue } from './queue.ts';

const utf8AsLatin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/** Prefix of the sort keys of a group's queues, ended by a NUL. NULs within the group's name are escaped. */
const groupKey = (group: string): string => `${utf8AsLatin1(group).replaceAll('\0', '\0\xff')}\0`;

/** Orders queues by group, then by name, bytewise. */
const sortKey = ({ group, name }: QueueName): string => `${groupKey(group)}\0${utf8AsLatin1(name)}`;

/** New queues that are sorted at once. Sorting 100,000 would block the event loop for too long. */
const ADDED_AT_MOST = 1_000;

/** A queue with its sort key and full name. Reading the name from 100,000 queues would take several times as long. */
interface Entry {
  readonly key: string;
  readonly fullName: string;
  readonly queue: Queue;
}

const entryOf = (queue: Queue): Entry => ({ key: sortKey(queue.ledger.name), fullName: queue.fullName, queue });

const compare = (a: Entry, b: Entry): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

/** Chooses queues by group and full name. All queues match an empty filter. */
type NameFilter = Partial<Pick<QueueFilter, 'group' | 'matches'>>;

/** Queues in the order of their groups, then of their names, bytewise. */
export class OrderedQueues {
  #size = 0;
  /**
   * Sorted runs of all queues except `#added`; they still contain `#removed`. Longer runs come first. Runs of about the same
   * length are merged at once, all runs when queues are listed. Merging every thousand into one array would copy that array
   * once for each thousand. Arrays take a tenth of a tree's memory and a tenth of its time to walk (bench row B11).
   */
  #ordered: (readonly Entry[])[] = [];
  #added: Queue[] = [];
  /** Removed queues that are still in `#ordered` or `#added`. */
  readonly #removed = new Set<Queue>();

  get size(): number {
    return this.#size;
  }

  add(queue: Queue): void {
    this.#size++;
    this.#added.push(queue);
    if (this.#added.length >= ADDED_AT_MOST) this.#orderAdded();
  }

  /** Removes a queue that was added. */
  remove(queue: Queue): void {
    this.#size--;
    this.#removed.add(queue);
    // Removed queues must not accumulate if no request lists queues.
    if (this.#removed.size > this.#size) this.#dropRemoved();
  }

  /** The queues in no order, without the time to sort them. */
  *[Symbol.iterator](): Generator<Queue> {
    for (const entries of this.#ordered) for (const { queue } of entries) if (!this.#removed.has(queue)) yield queue;
    for (const queue of this.#added) if (!this.#removed.has(queue)) yield queue;
  }

  /** The queues that match the filter, in order, behind `after`: those that are there when the iteration begins. */
  *inOrder({ group, matches }: NameFilter = {}, after?: QueueName): Generator<Queue> {
    const ordered = this.#orderAll();
    const first = group === undefined ? 0 : placeOf(ordered, `${groupKey(group)}\0`);
    const end = group === undefined ? ordered.length : placeOf(ordered, `${groupKey(group)}\x01`, first);
    const begin = after ? placeOf(ordered, `${sortKey(after)}\0`, first) : first;
    for (let at = begin; at < end; at++) {
      const entry = ordered[at];
      if (entry && (matches === undefined || matches(entry.fullName))) yield entry.queue;
    }
  }

  #orderAll(): readonly Entry[] {
    if (this.#removed.size > 0) this.#dropRemoved();
    if (this.#added.length > 0) this.#orderAdded();
    while (this.#ordered.length > 1) this.#mergeLastTwo();
    return this.#ordered[0] ?? [];
  }

  #orderAdded(): void {
    this.#ordered.push(this.#added.map(entryOf).sort(compare));
    this.#added = [];
    for (;;) {
      const [longer, shorter] = this.#ordered.slice(-2);
      if (longer === undefined || shorter === undefined || longer.length > 2 * shorter.length) return;
      this.#mergeLastTwo();
    }
  }

  #mergeLastTwo(): void {
    const [longer = [], shorter = []] = this.#ordered.splice(-2);
    this.#ordered.push(merge(longer, shorter));
  }

  #dropRemoved(): void {
    const isThere = (queue: Queue): boolean => !this.#removed.has(queue);
    this.#ordered = this.#ordered.map((entries) => entries.filter(({ queue }) => isThere(queue)));
    this.#added = this.#added.filter(isThere);
    this.#removed.clear();
  }
}

function merge(longer: readonly Entry[], shorter: readonly Entry[]): Entry[] {
  const merged: Entry[] = [];
  let from = 0;
  for (const entry of shorter) {
    const to = placeAhead(longer, entry.key, from);
    copy(longer, from, to, merged);
    merged.push(entry);
    from = to;
  }
  copy(longer, from, longer.length, merged);
  return merged;
}

function copy(entries: readonly Entry[], from: number, to: number, into: Entry[]): void {
  for (let at = from; at < to; at++) {
    const entry = entries[at];
    if (entry) into.push(entry);
  }
}

/** As `placeOf`, but faster if the place is near `from`. */
function placeAhead(ordered: readonly Entry[], key: string, from: number): number {
  let step = 1;
  while ((ordered[from + step]?.key ?? key) < key) step *= 2;
  return placeOf(ordered, key, from, Math.min(ordered.length, from + step));
}

/** The index of the first entry at or behind the key, between two indices. */
function placeOf(ordered: readonly Entry[], key: string, from = 0, end = ordered.length): number {
  let low = from;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = ordered[middle];
    if (entry && entry.key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
