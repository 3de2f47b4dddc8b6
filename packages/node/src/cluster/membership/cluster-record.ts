/** The cluster that the nodes of one deployment form. */
export interface RecordedCluster {
  readonly clusterId: string;
  /** Id of the node that began the cluster. A node gets a new id with an empty data directory. */
  readonly firstNode: string;
}

/**
 * A record of the cluster outside of the data directories. With it, a node that has lost its disk does not begin a second cluster
 * while the other members are down.
 */
export interface ClusterRecord {
  /** Records a cluster unless one is recorded. Resolves with the recorded one. Rejects if that is unknown. */
  claim(cluster: RecordedCluster): Promise<RecordedCluster>;
}
