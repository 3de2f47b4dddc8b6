import { type QueueName, reservedQueues } from '@taskmaster/proto';
import type { GroupUsage } from './group-usage.ts';
import { OrderedQueues } from './ordered-queues.ts';
import type { Queue } from './queue.ts';

interface Group {
  readonly group: string;
  /** By their names within the group. */
  readonly queues: Map<string, Queue>;
  readonly usage: GroupUsage;
}

/** The queues that exist, by name and in order. Reserved ones are found by name only. Of them only bytes of signals count. */
export class QueueTable {
  readonly #byGroup = new Map<string, Group>();
  readonly #listed = new OrderedQueues();

  get size(): number {
    return this.#listed.size;
  }

  get({ group, name }: QueueName): Queue | undefined {
    return this.#byGroup.get(group)?.queues.get(name);
  }

  /** What the queues of a group hold. Undefined: it has none. */
  usageOf(group: string): Readonly<GroupUsage> | undefined {
    return this.#byGroup.get(group)?.usage;
  }

  /** The groups that have queues. */
  groups(): Iterable<{ readonly group: string; readonly usage: Readonly<GroupUsage> }> {
    return this.#byGroup.values();
  }

  /** All queues of a group, the reserved ones too. */
  ofGroup(group: string): Iterable<Queue> {
    return this.#byGroup.get(group)?.queues.values() ?? [];
  }

  add(queue: Queue): void {
    const { name } = queue.ledger.name;
    let group = this.#byGroup.get(queue.ledger.name.group);
    if (!group) {
      group = {
        group: queue.ledger.name.group,
        queues: new Map(),
        usage: { queues: 0, tasks: 0, bytes: 0 },
      };
      this.#byGroup.set(group.group, group);
    }
    // Share one copy of the group's name among its queues.
    queue.ledger.name = { group: group.group, name };
    group.queues.set(name, queue);
    if (!queue.isReserved || name === reservedQueues.signals) queue.countIn(group.usage);
    if (queue.isReserved) return;
    group.usage.queues++;
    this.#listed.add(queue);
  }

  remove(queue: Queue): void {
    const { name } = queue.ledger;
    const group = this.#byGroup.get(name.group);
    const isThere = group?.queues.delete(name.name) ?? false;
    queue.countIn(undefined);
    if (group?.queues.size === 0) this.#byGroup.delete(name.group);
    if (queue.isReserved) return;
    if (group !== undefined && isThere) group.usage.queues--;
    this.#listed.remove(queue);
  }

  /** The queues that match the filter, in order, behind `after`: those that are there when the iteration begins. */
  inOrder(...filter: Parameters<OrderedQueues['inOrder']>): Generator<Queue> {
    return this.#listed.inOrder(...filter);
  }
}
