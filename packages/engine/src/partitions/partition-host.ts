import type { PartitionId } from '../domain/ids.ts';

/** A partition that this node holds. */
export interface HeldPartition {
  readonly id: PartitionId;
  /** Counts the changes of the partition's holder, from 1. */
  readonly epoch: number;
  /**
   * - serving: operations are served.
   * - frozen: operations wait while the partition is being handed over.
   * - handing-over: node `to` may take the partition; whether it has is not known.
   */
  readonly state: 'serving' | 'frozen' | 'handing-over';
  /** Id of the node that may take it; only while handing over. */
  readonly to: string | undefined;
  readonly queues: number;
  readonly tasks: number;
}

/** The holder of a partition, as far as this node knows. */
export interface PartitionLocation {
  readonly nodeId: string;
  /** `host:port` of the node's gRPC. */
  readonly address: string;
  readonly epoch: number;
}

/** An empty partition that starts at this node. */
export interface PartitionClaim {
  readonly id: PartitionId;
  readonly epoch: number;
}

/** The partitions that an engine holds: the cluster reads and changes them here. */
export interface PartitionHost {
  /** In the order of their ids. */
  held(): readonly HeldPartition[];
  /** True if this node holds the partition, in any state. */
  holds(id: PartitionId): boolean;
  /** Starts to hold partitions. Resolves when that is durable. Partitions that are held already do not change. */
  claim(claims: readonly PartitionClaim[]): Promise<void>;
  /** Gives up a partition that another node holds at the same or a later epoch. Commits to it end in this turn. */
  supersede(id: PartitionId, by: { readonly nodeId: string; readonly epoch: number }): Promise<void>;
  /** Calls the listener after each change of ids, epochs or states in `held()`. Returns a function that ends this. */
  onChange(listener: (changed: readonly PartitionId[]) => void): () => void;
  /** Set once: finds the holder of a partition for refusals with NOT_HOLDER. */
  locate(find: (id: PartitionId) => PartitionLocation | undefined): void;
  /**
   * Set once: called before every commit. If it returns a promise, the commit waits for it. If the promise rejects with a
   * `Refusal`, the caller is refused.
   */
  guard(check: () => Promise<void> | undefined): void;
}
