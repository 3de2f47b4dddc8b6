import type { QueueName } from '@taskmaster/proto';
import type { QueueFilter } from '@taskmaster/server/domain';
import type { Queue } from './queue.ts';

const utf8AsLatin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/** What the keys of a group's queues begin with, but for a NUL; a NUL within the group must not end it. */
const groupKey = (group: string): string => `${utf8AsLatin1(group).replaceAll('\0', '\0\xff')}\0`;

/** Orders queues by group, then by name, bytewise. */
const sortKey = ({ group, name }: QueueName): string => `${groupKey(group)}\0${utf8AsLatin1(name)}`;

/** So many new queues are put in their places at once. Putting 100,000 there would hold up everybody for long. */
const ADDED_AT_MOST = 1_000;

/** With the full name: to look into the queues for it takes several times as long, which of 100,000 is much. */
interface Entry {
  readonly key: string;
  readonly fullName: string;
  readonly queue: Queue;
}

const entryOf = (queue: Queue): Entry => ({ key: sortKey(queue.ledger.name), fullName: queue.fullName, queue });

const compare = (a: Entry, b: Entry): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

interface Group {
  /** Its name. */
  readonly group: string;
  /** By their names within the group. */
  readonly queues: Map<string, Queue>;
}

/** Which queues are wanted, by name; without both, all. */
type NameFilter = Partial<Pick<QueueFilter, 'group' | 'matches'>>;

/** The queues that exist, by name and in order. */
export class QueueTable {
  readonly #byGroup = new Map<string, Group>();
  #size = 0;
  /**
   * All queues in order, but for those that came and went lately. An array takes a tenth of the memory of a tree, and of
   * the time to walk it. Until somebody lists they are several, longer ones first, and those of about the same length become
   * one: to put each thousand into one array of all would leave behind as many arrays as there are thousands.
   */
  #ordered: (readonly Entry[])[] = [];
  #added: Queue[] = [];
  /** Still in those. */
  readonly #removed = new Set<Queue>();

  get size(): number {
    return this.#size;
  }

  get({ group, name }: QueueName): Queue | undefined {
    return this.#byGroup.get(group)?.queues.get(name);
  }

  add(queue: Queue): void {
    const { name } = queue.ledger.name;
    let group = this.#byGroup.get(queue.ledger.name.group);
    if (!group) {
      group = { group: queue.ledger.name.group, queues: new Map() };
      this.#byGroup.set(group.group, group);
    }
    // Every queue came with a copy of its group's name; one is enough for all.
    queue.ledger.name = { group: group.group, name };
    group.queues.set(name, queue);
    this.#size++;
    this.#added.push(queue);
    if (this.#added.length >= ADDED_AT_MOST) this.#orderAdded();
  }

  remove(queue: Queue): void {
    const { name } = queue.ledger;
    const group = this.#byGroup.get(name.group);
    group?.queues.delete(name.name);
    if (group?.queues.size === 0) this.#byGroup.delete(name.group);
    this.#size--;
    this.#removed.add(queue);
    // Gone ones must not gather where nobody ever lists.
    if (this.#removed.size > this.#size) this.#dropRemoved();
  }

  /** Those of the group with such full names, in order, behind `after`. The table must not change meanwhile. */
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

/** As `placeOf`; quick where the place is near `from`. */
function placeAhead(ordered: readonly Entry[], key: string, from: number): number {
  let step = 1;
  while ((ordered[from + step]?.key ?? key) < key) step *= 2;
  return placeOf(ordered, key, from, Math.min(ordered.length, from + step));
}

/** Where, between two indices, the first entry is that does not come before the key. */
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
