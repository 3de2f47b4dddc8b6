import type { PartitionId } from '../domain/ids.ts';

/** Where a partition was last heard to be. */
export interface KnownHolder {
  readonly nodeId: string;
  readonly epoch: number;
}

/**
 * Where every partition is, as far as this member has heard; the later epoch counts. What a holder says of its own
 * partitions comes first hand, all else is hearsay that grows up: it is never newer than the truth.
 */
export class HolderView {
  readonly #holders: (KnownHolder | undefined)[];

  constructor(partitions: number) {
    this.#holders = new Array<KnownHolder | undefined>(partitions).fill(undefined);
  }

  get partitions(): number {
    return this.#holders.length;
  }

  get(id: PartitionId): KnownHolder | undefined {
    return this.#holders[id];
  }

  /** Returns whether it was news. Partitions that this cluster does not have are passed over. */
  learn(id: PartitionId, holder: KnownHolder): boolean {
    if (!(id >= 0 && id < this.#holders.length)) return false;
    const known = this.#holders[id];
    if (known && (known.epoch > holder.epoch || (known.epoch === holder.epoch && known.nodeId === holder.nodeId))) {
      return false;
    }
    // One holder an epoch; if a restored disk made two, all members choose alike.
    if (known?.epoch === holder.epoch && known.nodeId > holder.nodeId) return false;
    this.#holders[id] = holder;
    return true;
  }

  *entries(): Generator<[PartitionId, KnownHolder]> {
    for (const [id, holder] of this.#holders.entries()) if (holder) yield [id as PartitionId, holder];
  }
}
