import { partitionOf } from '@taskmaster/proto';
import type { PartitionId } from '@taskmaster/server/domain';

const MOST_REMEMBERED = 100_000;

/** Facts derived from the name of a group. */
export interface Group {
  readonly partition: PartitionId;
  /** The bytes of the name as a latin1 string. */
  readonly latin1: string;
}

/** A cache of the facts about groups. */
export class Groups {
  readonly #partitions: number;
  readonly #groups = new Map<string, Group>();

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  get(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      const partition = partitionOf(name, this.#partitions) as PartitionId;
      group = { partition, latin1: Buffer.from(name, 'utf8').toString('latin1') };
      // Clearing it now and then bounds its memory.
      if (this.#groups.size >= MOST_REMEMBERED) this.#groups.clear();
      this.#groups.set(name, group);
    }
    return group;
  }
}
