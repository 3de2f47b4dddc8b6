import type { PartitionId } from '@taskmaster/engine/domain';

/** The known holder of a partition. */
export interface KnownHolder {
  readonly nodeId: string;
  readonly epoch: number;
}

/** The size of a partition, as its holder reported it. It is only shown to people. */
export interface PartitionCounts {
  readonly queues: number;
  readonly tasks: number;
  /** When the holder counted, by its own clock, in ms since 1970. */
  readonly countedMs: number;
}

/**
 * The known holder of each partition. The later epoch counts. A holder reports its own partitions first hand. Reports of other
 * nodes may be stale, but they are never newer than the truth.
 */
export class HolderView {
  readonly #holders: (KnownHolder | undefined)[];
  /** Counts of the current epoch only, because the clocks of two holders are not compared. */
  readonly #counts = new Map<PartitionId, PartitionCounts>();
  /** The largest known mark of the current holder and epoch. */
  readonly #marks = new Map<PartitionId, number>();

  constructor(partitions: number) {
    this.#holders = new Array<KnownHolder | undefined>(partitions).fill(undefined);
  }

  get partitions(): number {
    return this.#holders.length;
  }

  /** The ids of all partitions. */
  ids(): Iterable<PartitionId> {
    return this.#holders.keys() as Iterable<PartitionId>;
  }

  get(id: PartitionId): KnownHolder | undefined {
    return this.#holders[id];
  }

  /** Partitions without a known holder. */
  unknown(): PartitionId[] {
    return [...this.#holders.keys()].filter((id) => this.#holders[id] === undefined) as PartitionId[];
  }

  /** Takes over a holder. Returns true if it is new. Ids beyond the number of partitions are ignored. */
  learn(id: PartitionId, holder: KnownHolder): boolean {
    if (!(id >= 0 && id < this.#holders.length)) return false;
    const known = this.#holders[id];
    if (known && (known.epoch > holder.epoch || (known.epoch === holder.epoch && known.nodeId === holder.nodeId))) {
      return false;
    }
    // An epoch has one holder. If a restored disk caused two, all members choose the same one.
    if (known?.epoch === holder.epoch && known.nodeId > holder.nodeId) return false;
    this.#holders[id] = holder;
    if (known?.epoch !== holder.epoch) this.#counts.delete(id);
    this.#marks.delete(id);
    return true;
  }

  /** Undefined until the counts of the current epoch are known. */
  counts(id: PartitionId): PartitionCounts | undefined {
    return this.#counts.get(id);
  }

  /** Takes over the counts of a holder. Ignored unless they are of the current epoch, and new. */
  learnCounts(id: PartitionId, epoch: number, counts: PartitionCounts): void {
    if (this.#holders[id]?.epoch !== epoch) return;
    if (counts.countedMs > (this.#counts.get(id)?.countedMs ?? 0)) this.#counts.set(id, counts);
  }

  /** The `durableMark` of the holder: how far its disk reaches. 0 if it is unknown. */
  durableMark(id: PartitionId): number {
    return this.#marks.get(id) ?? 0;
  }

  /** Takes over a mark. Ignored unless the view has the same holder and epoch, and a smaller mark. */
  learnDurableMark(id: PartitionId, { nodeId, epoch }: KnownHolder, mark: number): void {
    const known = this.#holders[id];
    if (known?.epoch !== epoch || known.nodeId !== nodeId) return;
    if (mark > this.durableMark(id)) this.#marks.set(id, mark);
  }

  *entries(): Generator<[PartitionId, KnownHolder]> {
    for (const [id, holder] of this.#holders.entries()) if (holder) yield [id as PartitionId, holder];
  }
}
