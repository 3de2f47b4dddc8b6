/** The holder of a partition. */
export interface Holder {
  readonly nodeId: string;
  /** `host:port` of its gRPC. */
  readonly address: string;
  /** Number of changes of the holder of the partition. */
  readonly epoch: number;
}

/** A member that may hold partitions. */
export interface RoutedNode {
  readonly nodeId: string;
  readonly name: string;
  /** `host:port` of its gRPC. */
  readonly address: string;
  /** According to gossip. A node that counts as dead may still be called. */
  readonly alive: boolean;
}

/** Knows which node serves which partition. The knowledge may be stale. */
export interface Routes {
  /** Number of partitions of the cluster, which never changes. 0 while it is unknown. */
  readonly partitions: number;
  holderOf(partition: number): Holder | undefined;
  nodes(): readonly RoutedNode[];
  /** Takes over a holder that a node named. Ignored if it is older than the known one, or the same. */
  learn(partition: number, holder: Holder): void;
  /** Calls the listener after holders or nodes changed. Returns a function that removes it. */
  onChange(listener: () => void): () => void;
}
