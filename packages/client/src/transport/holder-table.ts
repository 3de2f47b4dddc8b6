import { parseQueueName, partitionOf } from '@taskmaster/proto';

/** A node that holds a partition. */
export interface Holder {
  /** `host:port` of its gRPC. */
  readonly address: string;
  /** Counts the changes of the partition's holder. */
  readonly epoch: number;
}

interface Entry extends Holder {
  /** How often the holder itself has denied it. */
  readonly denials: number;
  readonly distrustedUntil: number;
}

/** A holder that denies it so often is not asked for a while: others know better. */
const DENIALS = 2;
const DISTRUST_MS = 2_000;
/** Queues whose partitions are remembered; computing one takes as long as looking up a hundred. */
const REMEMBERED_QUEUES = 10_000;

/** Which node holds which group, as far as it was told. The newer epoch is right, whoever tells it. */
export class HolderTable {
  readonly #byPartition = new Map<number, Entry>();
  readonly #partitionOfQueue = new Map<string, number>();
  #clusterId: string | undefined;
  #partitions: number | undefined;

  /** How many partitions the cluster has; until that is known nothing can be looked up. */
  get partitions(): number | undefined {
    return this.#partitions;
  }

  /** What is learned is of this cluster from now on. Another one's epochs say nothing about it. */
  begin(clusterId: string, partitions: number): void {
    if (this.#clusterId !== undefined && this.#clusterId !== clusterId) this.#byPartition.clear();
    if (this.#partitions !== partitions) this.#partitionOfQueue.clear();
    this.#clusterId = clusterId;
    this.#partitions = partitions;
  }

  /** Nothing was told yet. */
  get isEmpty(): boolean {
    return this.#byPartition.size === 0;
  }

  /** Addresses of all holders. */
  get addresses(): ReadonlySet<string> {
    return new Set([...this.#byPartition.values()].map(({ address }) => address));
  }

  /** Where the group of the queue is held, or of all the queues if they are held by one node. Undefined: not known. */
  addressOf(queues: string | readonly string[], now: number): string | undefined {
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

  /** Somebody who knows tells who holds a partition. */
  learn(partition: number, { address, epoch }: Holder): void {
    const known = this.#byPartition.get(partition);
    if (known !== undefined && known.epoch >= epoch) {
      // The same holder at another address: it was started again elsewhere.
      if (known.epoch > epoch || known.address === address) return;
    }
    this.#byPartition.set(partition, { address, epoch, denials: 0, distrustedUntil: 0 });
  }

  /**
   * The node at `by` said that it does not hold a partition, and who does if it knows. Returns whether that was news: of
   * many calls that find a group gone only the first one brings any.
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
    let partition = this.#partitionOfQueue.get(queue);
    if (partition === undefined) {
      partition = partitionOf(parseQueueName(queue).group, partitions);
      if (this.#partitionOfQueue.size >= REMEMBERED_QUEUES) this.#partitionOfQueue.clear();
      this.#partitionOfQueue.set(queue, partition);
    }
    const entry = this.#byPartition.get(partition);
    return entry === undefined || entry.distrustedUntil > now ? undefined : entry.address;
  }
}

/** What a refusal with NOT_HOLDER says. */
export interface Denial {
  readonly partition: number;
  /** Undefined: the node does not know. */
  readonly holder: Holder | undefined;
}

/** Reads the metadata of a NOT_HOLDER; undefined: it says nothing that can be used. */
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
