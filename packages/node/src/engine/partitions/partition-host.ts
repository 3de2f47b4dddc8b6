import type { PartitionId } from '@taskmaster/server/domain';

/** A partition that this node holds. */
export interface HeldPartition {
  readonly id: PartitionId;
  /** Counts the changes of the partition's holder, from 1. */
  readonly epoch: number;
  /**
   * - serving: its operations are served.
   * - frozen: they wait, for the moment in which it is handed over.
   * - handing-over: `to` was told to take it, and nothing is known of what became of that.
   */
  readonly state: 'serving' | 'frozen' | 'handing-over';
  /** Id of the node that was told to take it. */
  readonly to: string | undefined;
  readonly queues: number;
  readonly tasks: number;
}

/** Where a partition is, as far as this node has heard. */
export interface PartitionLocation {
  readonly nodeId: string;
  /** `host:port` of the node's gRPC. */
  readonly address: string;
  readonly epoch: number;
}

/** A partition that begins at this node, empty. */
export interface PartitionClaim {
  readonly id: PartitionId;
  readonly epoch: number;
}

/** Which partitions an engine holds, as the cluster sees it and decides it. */
export interface PartitionHost {
  /** In the order of their ids. */
  held(): readonly HeldPartition[];
  /** Whether the partition is this node's, whatever its state. */
  holds(id: PartitionId): boolean;
  /** Begins to hold partitions; resolves when that is durable. What is held already stays as it is. */
  claim(claims: readonly PartitionClaim[]): Promise<void>;
  /** Gives up a partition that another node holds at a later epoch: nothing of it is committed from this turn on. */
  supersede(id: PartitionId, by: { readonly nodeId: string; readonly epoch: number }): Promise<void>;
  /** Told after each change of what `held` says of ids, epochs and states, of which. Returns the way to end it. */
  onChange(listener: (changed: readonly PartitionId[]) => void): () => void;
  /** Given once: what refusals with NOT_HOLDER say of where a partition is. */
  locate(find: (id: PartitionId) => PartitionLocation | undefined): void;
  /**
   * Given once: asked before every commit. While it returns a promise, nothing is committed and callers wait for the
   * promise; when that rejects, with a `Refusal`, they are refused.
   */
  guard(check: () => Promise<void> | undefined): void;
}
