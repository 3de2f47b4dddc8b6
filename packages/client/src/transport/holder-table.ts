import { Memo, parseQueueName, partitionOf } from '@taskmaster/proto';

/** A node that holds a partition. */
export interface Holder {
  /** gRPC address, `host:port`. */
  readonly address: string;
  /** Number of changes of the partition's holder. */
  readonly epoch: number;
}

interface Entry extends Holder {
  /** How often this holder has denied that it holds the partition. */
  readonly denials: number;
  /** The entry is not used before this time. */
  readonly distrustedUntil: number;
}

/** After this number of denials the holder is not asked for `DISTRUST_MS`. */
const DENIALS = 2;
const DISTRUST_MS = 2_000;
/** Queues whose partitions are cached. Computing a partition takes as long as a hundred lookups. */
const REMEMBERED_QUEUES = 10_000;

/** Holders of partitions, as reported by nodes. The highest epoch is right, whichever node reports it. */
export class HolderTable {
  readonly #byPartition = new Map<number, Entry>();
  readonly #partitionOfQueue = new Memo<string, number>(REMEMBERED_QUEUES);
  #clusterId: string | undefined;
  #partitions: number | undefined;

  /** Number of partitions of the cluster. Undefined: unknown, and nothing can be looked up. */
  get partitions(): number | undefined {
    return this.#partitions;
  }

  /** Sets the cluster of the table. Entries of another cluster are deleted, because their epochs do not compare. */
  begin(clusterId: string, partitions: number): void {
    if (this.#clusterId !== undefined && this.#clusterId !== clusterId) this.#byPartition.clear();
    if (this.#partitions !== partitions) this.#partitionOfQueue.clear();
    this.#clusterId = clusterId;
    this.#partitions = partitions;
  }

  /** No holder is known. */
  get isEmpty(): boolean {
    return this.#byPartition.size === 0;
  }

  /** Addresses of all holders. */
  get addresses(): ReadonlySet<string> {
    return new Set([...this.#byPartition.values()].map(({ address }) => address));
  }

  /** Address of the holder of a partition, or of all these queues. Undefined: it is unknown, or they have several holders. */
  addressOf(queues: number | string | readonly string[], now: number): string | undefined {
    if (typeof queues === 'number') return this.#holderOf(queues, now);
    if (this.#partitions === undefined) return undefined;
    if (typeof queues === 'string') return this.#addressOf(queues, this.#partitions, now);
    let common: string | undefined;
    for (const queue of queues) {
      const address = this.#addressOf(queue, this.#partitions, now);
      if (address === undefined || (common !== undefined && address !== common)) return undefined;
      common = address;
    }
    return common;
  }

  /** Enters a holder that a node has reported. */
  learn(partition: number, { address, epoch }: Holder): void {
    const known = this.#byPartition.get(partition);
    if (known !== undefined && known.epoch >= epoch) {
      // The same holder at another address has restarted there.
      if (known.epoch > epoch || known.address === address) return;
    }
    this.#byPartition.set(partition, { address, epoch, denials: 0, distrustedUntil: 0 });
  }

  /**
   * Enters that the node at `by` does not hold a partition, and the holder that it names. Returns whether this was news: after a
   * group has moved, many calls get the same answer.
   */
  denied(by: string, partition: number, holder: Holder | undefined, now: number): boolean {
    const known = this.#byPartition.get(partition);
    if (holder !== undefined && (known === undefined || holder.epoch > known.epoch)) {
      this.learn(partition, holder);
      return true;
    }
    if (known?.address === by) {
      const denials = known.denials + 1;
      const distrustedUntil = denials < DENIALS ? 0 : now + DISTRUST_MS;
      this.#byPartition.set(partition, { ...known, denials, distrustedUntil });
    }
    return false;
  }

  #addressOf(queue: string, partitions: number, now: number): string | undefined {
    const partition =
      this.#partitionOfQueue.get(queue) ??
      this.#partitionOfQueue.remember(queue, partitionOf(parseQueueName(queue).group, partitions));
    return this.#holderOf(partition, now);
  }

  #holderOf(partition: number, now: number): string | undefined {
    const entry = this.#byPartition.get(partition);
    return entry === undefined || entry.distrustedUntil > now ? undefined : entry.address;
  }
}

/** Content of a refusal with NOT_HOLDER. */
export interface Denial {
  readonly partition: number;
  /** Undefined: the node does not know the holder. */
  readonly holder: Holder | undefined;
}

/** Reads the metadata of a NOT_HOLDER. Undefined: it is not usable. */
export function readDenial(metadata: Readonly<Record<string, string>>): Denial | undefined {
  const partition = wholeNumber(metadata.partition);
  if (partition === undefined) return undefined;
  const epoch = wholeNumber(metadata.epoch);
  const address = metadata.holder;
  const isTold = address !== undefined && address !== '' && epoch !== undefined;
  return { partition, holder: isTold ? { address, epoch } : undefined };
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
