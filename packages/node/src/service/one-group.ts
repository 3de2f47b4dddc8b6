import type { QueueName } from '@taskmaster/proto';
import { excerpt, type Place, pathOf, queueName, refuse } from '@taskmaster/server/requests';

/** Checks that all queues of a request are in one group, the unit of atomicity and of placement. */
export class OneGroup {
  #first: { readonly group: string; readonly place: Place } | undefined;
  /** The last name. Most items in a row name the same queue: bench row B3. */
  #full: string | undefined;
  #queue: QueueName | undefined;

  get name(): string {
    return this.#first?.group ?? '';
  }

  queue(full: string, list: string, index: number, field: string): QueueName {
    if (this.#queue !== undefined && full === this.#full) return this.#queue;
    const queue = queueName(full, { list, index, field });
    if (this.#first === undefined) this.#first = { group: queue.group, place: { list, index, field } };
    else if (queue.group !== this.#first.group) this.#refuse(queue, { list, index, field }, this.#first);
    this.#full = full;
    this.#queue = queue;
    return queue;
  }

  #refuse(queue: QueueName, place: Place, first: { readonly group: string; readonly place: Place }): never {
    return refuse(
      'MIXED_GROUPS',
      place,
      `is of the group ${excerpt(queue.group)}, ${pathOf(first.place)} of ${excerpt(first.group)}: one group a request`,
      { group: queue.group, otherGroup: first.group },
    );
  }
}
