import { partitionOf } from '@taskmaster/proto';
import { ClusterAdministration } from '../cluster/administration.ts';
import type { PartitionId } from '../domain/ids.ts';
import { SimCluster, type SimClusterOptions, type SimNode } from './sim-cluster.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export const GROUPS: readonly string[] = Array.from({ length: 40 }, (_, i) => `group-${i}`);

/** Nodes that joined one after the other, with their parts of the partitions. */
export async function clusterOf(names: readonly string[], options: SimClusterOptions = {}): Promise<SimCluster> {
  const cluster = new SimCluster(options);
  for (const name of names) {
    await cluster.run(cluster.add(name).start());
    await cluster.pass(30_000);
  }
  return cluster;
}

/** Enqueues a task in every group, wherever it is held. */
export async function fill(cluster: SimCluster, pid: string): Promise<void> {
  for (const group of GROUPS) {
    const holder = cluster.holderOf(group);
    if (!holder) throw new Error(`nobody serves ${group}`);
    await cluster.run(holder.h.enqueue(`${group}#q`, [pid]));
  }
}

/** Groups of this node's partitions. */
export const groupsOf = (cluster: SimCluster, node: SimNode): string[] =>
  GROUPS.filter((group) => node.partitions.holds(partitionOf(group, cluster.partitions) as PartitionId));

export const idsHeldBy = (node: SimNode): PartitionId[] => node.partitions.held().map(({ id }) => id);

/** What operators reach at the node. */
export function administrationOf(cluster: SimCluster, name: string): ClusterAdministration {
  const node = cluster.node(name);
  const { agent, membership } = node;
  const call = cluster.callFrom(name, node.h.clock);
  return new ClusterAdministration({ agent, membership, call, clusterId: 'cluster-1', log: SILENT });
}

/** Cuts a node off from all others, or from some, in both directions. */
export function cutOff(cluster: SimCluster, name: string, others: Iterable<string> = cluster.nodes.keys()): void {
  for (const other of others) {
    if (other === name) continue;
    cluster.cut.add(`${name}>${other}`).add(`${other}>${name}`);
  }
}
