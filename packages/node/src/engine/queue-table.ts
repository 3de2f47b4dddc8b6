import { OrderedSet } from '@js-sdsl/ordered-set';
import type { QueueName } from '@taskmaster/proto';
import type { Queue } from './queue.ts';

const utf8AsLatin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/** Orders queues by group, then by name, bytewise; a NUL within a group must not end it. */
const sortKey = ({ group, name }: QueueName): string =>
  `${utf8AsLatin1(group).replaceAll('\0', '\0\xff')}\0\0${utf8AsLatin1(name)}`;

interface Entry {
  readonly key: string;
  readonly queue: Queue | undefined;
}

const compare = (a: Entry, b: Entry): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

/** What an entry is sought by. */
const keyOf = (name: QueueName): Entry => ({ key: sortKey(name), queue: undefined });

/** The queues that exist, by name and in order. */
export class QueueTable {
  readonly #byGroup = new Map<string, Map<string, Queue>>();
  readonly #all = new Set<Queue>();
  /** A set, for the iterators of the map make a proxy for each step. */
  readonly #ordered = new OrderedSet<Entry>([], compare);

  get size(): number {
    return this.#all.size;
  }

  get({ group, name }: QueueName): Queue | undefined {
    return this.#byGroup.get(group)?.get(name);
  }

  add(queue: Queue): void {
    const { name } = queue.ledger;
    let group = this.#byGroup.get(name.group);
    if (!group) {
      group = new Map();
      this.#byGroup.set(name.group, group);
    }
    group.set(name.name, queue);
    this.#all.add(queue);
    this.#ordered.insert({ key: sortKey(name), queue });
  }

  remove(queue: Queue): void {
    const { name } = queue.ledger;
    const group = this.#byGroup.get(name.group);
    group?.delete(name.name);
    if (group?.size === 0) this.#byGroup.delete(name.group);
    this.#all.delete(queue);
    this.#ordered.eraseElementByKey(keyOf(name));
  }

  /** In order of names, behind `after`. The table must not change meanwhile. */
  *inOrder(after?: QueueName): Generator<Queue> {
    const from = after ? this.#ordered.upperBound(keyOf(after)) : this.#ordered.begin();
    for (const end = this.#ordered.end(); !from.equals(end); from.next()) {
      const { queue } = from.pointer;
      if (queue) yield queue;
    }
  }

  [Symbol.iterator](): Iterator<Queue> {
    return this.#all.values();
  }
}
