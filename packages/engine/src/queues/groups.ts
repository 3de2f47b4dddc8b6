import { Memo, partitionOf } from '@taskmaster/proto';
import type { PartitionId } from '../domain/ids.ts';

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
  readonly #groups = new Memo<string, Group>(MOST_REMEMBERED);

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  get(name: string): Group {
    return this.#groups.get(name) ?? this.#groups.remember(name, this.#factsOf(name));
  }

  #factsOf(name: string): Group {
    const partition = partitionOf(name, this.#partitions) as PartitionId;
    return { partition, latin1: Buffer.from(name, 'utf8').toString('latin1') };
  }
}
