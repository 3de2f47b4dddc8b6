import { OrderedMap } from '@js-sdsl/ordered-map';
import type { QueueName } from '@taskmaster/proto';
import type { Queue } from './queue.ts';

const utf8AsLatin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Orders queues by group, then by name, bytewise; a NUL within a group must not end it. */
const sortKey = ({ group, name }: QueueName): string =>
  `${utf8AsLatin1(group).replaceAll('\0', '\0\xff')}\0\0${utf8AsLatin1(name)}`;

/** The queues that exist, by name and in order. */
export class QueueTable {
  readonly #byGroup = new Map<string, Map<string, Queue>>();
  readonly #all = new Set<Queue>();
  readonly #ordered = new OrderedMap<string, Queue>([], compare);

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
    this.#ordered.setElement(sortKey(name), queue);
  }

  remove(queue: Queue): void {
    const { name } = queue.ledger;
    const group = this.#byGroup.get(name.group);
    group?.delete(name.name);
    if (group?.size === 0) this.#byGroup.delete(name.group);
    this.#all.delete(queue);
    this.#ordered.eraseElementByKey(sortKey(name));
  }

  /** In order of names, behind `after`. The table must not change meanwhile. */
  *inOrder(after?: QueueName): Generator<Queue> {
    const from = after ? this.#ordered.upperBound(sortKey(after)) : this.#ordered.begin();
    for (const end = this.#ordered.end(); !from.equals(end); from.next()) yield from.pointer[1];
  }

  [Symbol.iterator](): Iterator<Queue> {
    return this.#all.values();
  }
}
