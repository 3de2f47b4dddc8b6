import type { PartitionId } from '../domain/ids.ts';

/** Where a partition was last heard to be. */
export interface KnownHolder {
  readonly nodeId: string;
  readonly epoch: number;
}

/** What a holder said of a partition's size. For people: nothing is decided by it. */
export interface PartitionCounts {
  readonly queues: number;
  readonly tasks: number;
  /** When the holder counted, by its own clock, in ms since 1970. */
  readonly countedMs: number;
}

/**
 * Where every partition is, as far as this member has heard; the later epoch counts. What a holder says of its own
 * partitions comes first hand, all else is hearsay that grows up: it is never newer than the truth.
 */
export class HolderView {
  readonly #holders: (KnownHolder | undefined)[];
  /** Of the present epoch: clocks of two holders are not compared. */
  readonly #counts = new Map<PartitionId, PartitionCounts>();
  /** The largest mark heard of the present holder and epoch. */
  readonly #marks = new Map<PartitionId, number>();

  constructor(partitions: number) {
    this.#holders = new Array<KnownHolder | undefined>(partitions).fill(undefined);
  }

  get partitions(): number {
    return this.#holders.length;
  }

  /** Of all partitions that there are. */
  ids(): Iterable<PartitionId> {
    return this.#holders.keys() as Iterable<PartitionId>;
  }

  get(id: PartitionId): KnownHolder | undefined {
    return this.#holders[id];
  }

  /** Partitions of which nothing was heard. */
  unknown(): PartitionId[] {
    return [...this.#holders.keys()].filter((id) => this.#holders[id] === undefined) as PartitionId[];
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
    if (known?.epoch !== holder.epoch) this.#counts.delete(id);
    this.#marks.delete(id);
    return true;
  }

  /** Undefined until the holder of the present epoch was heard of. */
  counts(id: PartitionId): PartitionCounts | undefined {
    return this.#counts.get(id);
  }

  /** What the holder of that epoch counted; ignored unless it is the present epoch, and news. */
  learnCounts(id: PartitionId, epoch: number, counts: PartitionCounts): void {
    if (this.#holders[id]?.epoch !== epoch) return;
    if (counts.countedMs > (this.#counts.get(id)?.countedMs ?? 0)) this.#counts.set(id, counts);
  }

  /** How far the holder's disk reaches, as its `durableMark` says; 0 if it is not known. */
  durableMark(id: PartitionId): number {
    return this.#marks.get(id) ?? 0;
  }

  /** Learns a mark of this holder; ignored unless the view has the same holder and epoch, and a smaller mark. */
  learnDurableMark(id: PartitionId, { nodeId, epoch }: KnownHolder, mark: number): void {
    const known = this.#holders[id];
    if (known?.epoch !== epoch || known.nodeId !== nodeId) return;
    if (mark > this.durableMark(id)) this.#marks.set(id, mark);
  }

  *entries(): Generator<[PartitionId, KnownHolder]> {
    for (const [id, holder] of this.#holders.entries()) if (holder) yield [id as PartitionId, holder];
  }
}
