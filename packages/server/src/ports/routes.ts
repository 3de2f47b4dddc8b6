/** Where a partition is held. */
export interface Holder {
  readonly nodeId: string;
  /** `host:port` of its gRPC. */
  readonly address: string;
  /** Counts the changes of the partition's holder. */
  readonly epoch: number;
}

/** A member that may hold partitions. */
export interface RoutedNode {
  readonly nodeId: string;
  readonly name: string;
  /** `host:port` of its gRPC. */
  readonly address: string;
  /** As far as gossip knows; a dead one may still be asked. */
  readonly alive: boolean;
}

/** Which node serves which partition, as far as this process knows. */
export interface Routes {
  /** Fixed when the cluster was created; 0 while it is not known. */
  readonly partitions: number;
  holderOf(partition: number): Holder | undefined;
  nodes(): readonly RoutedNode[];
  /** Takes what a node said about a partition it does not hold; ignored when its epoch is older than what is known. */
  learn(partition: number, holder: Holder): void;
  /** Calls back after holders or nodes changed; returns what ends that. */
  onChange(listener: () => void): () => void;
}
