import type { SimNode } from '@taskmaster/node/testing';
import { parseQueueName, partitionOf } from '@taskmaster/proto';

interface Change {
  readonly at: number;
  readonly node: string;
}

/** When nodes may have begun to serve partitions. A node may be noted again while it serves. */
export class HolderChanges {
  readonly #partitions: number;
  readonly #now: () => number;
  readonly #changes = new Map<number, Change[]>();

  constructor(partitions: number, now: () => number) {
    this.#partitions = partitions;
    this.#now = now;
  }

  /** Call it when the holdings of a node have changed. */
  note({ name, partitions }: Pick<SimNode, 'name' | 'partitions'>): void {
    for (const { id, state } of partitions.held()) {
      if (state !== 'serving') continue;
      const changes = this.#changes.get(id) ?? [];
      this.#changes.set(id, changes);
      changes.push({ at: this.#now(), node: name });
    }
  }

  /** Whether another node may have begun to serve the group of the queue between these times. */
  isMoved(queue: string, from: number, to: number): boolean {
    const changes = this.#of(queue);
    const before = changes.findLast(({ at }) => at < from)?.node;
    return changes.some(({ at, node }) => at >= from && at <= to && node !== before);
  }

  #of(queue: string): readonly Change[] {
    return this.#changes.get(partitionOf(parseQueueName(queue).group, this.#partitions)) ?? [];
  }
}
