import { partitionOf, type RemoveMemberResponse } from '@taskmaster/proto';
import type { PartitionId } from '@taskmaster/server/domain';
import { expect } from 'vitest';
import { ClusterAdministration } from '../cluster/membership/administration.ts';
import type { HeldPartition } from '../engine/partitions/partition-host.ts';
import { pidsOf } from './engine-harness.ts';
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

/** One of this node's partitions that has tasks. */
export function partitionWithTasks(node: SimNode): HeldPartition {
  const held = node.partitions.held().find(({ tasks }) => tasks > 0);
  if (!held) throw new Error(`node ${node.name} holds no tasks`);
  return held;
}

/** Cuts a node off when somebody is told to take a partition: whoever takes it, the other side does not hear of it. */
export function cutOffAtTake(cluster: SimCluster, who: string): void {
  cluster.network.onArrival = ({ what, way }) => {
    if (what === 'takePartition' && way === 'request') cutOff(cluster, who);
  };
}

/** What operators reach at the node. */
export function administrationOf(cluster: SimCluster, name: string): ClusterAdministration {
  const node = cluster.node(name);
  const { agent, membership } = node;
  const call = cluster.callFrom(name, node.h.clock);
  return new ClusterAdministration({ agent, membership, call, clusterId: 'cluster-1', log: SILENT });
}

/** Longer than gossip needs to declare a node dead. */
export const DEATH_MS = 10_000;

export interface GivingUp {
  readonly acceptLoss: boolean;
  /** Default 0. */
  readonly waitMs?: number;
}

/** Gives members up, through that node; time must be moved meanwhile. */
export function givingUp(
  cluster: SimCluster,
  through: string,
  names: readonly string[],
  { acceptLoss, waitMs = 0 }: GivingUp,
): Promise<RemoveMemberResponse> {
  const [name = '', ...also] = names;
  return administrationOf(cluster, through).removeMember({ name, also, acceptLoss, waitMs });
}

/** As an operator does who knows what is lost. */
export const giveUp = (cluster: SimCluster, through: string, ...names: string[]): Promise<RemoveMemberResponse> =>
  cluster.run(givingUp(cluster, through, names, { acceptLoss: true }));

/** What an operator is told before. */
export const reportOn = (cluster: SimCluster, through: string, ...names: string[]): Promise<RemoveMemberResponse> =>
  cluster.run(givingUp(cluster, through, names, { acceptLoss: false }));

/** Of the tasks of `fill` that are there. */
export async function pidsIn(cluster: SimCluster, group: string): Promise<string[]> {
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`nobody serves ${group}`);
  return pidsOf(await cluster.run(holder.h.lease(`${group}#q`, { max: 9, for: 1 })));
}

/** Of every partition, among those who have not left. */
export function expectOneHolderEach(cluster: SimCluster): void {
  for (let id = 0; id < cluster.partitions; id++) {
    const holders = cluster
      .serving(id as PartitionId)
      .filter((name) => cluster.node(name).agent.self?.state !== 'left');
    expect(holders, `holders of ${id}`).toHaveLength(1);
  }
}

/** Cuts a node off from all others, or from some, in both directions. */
export function cutOff(cluster: SimCluster, name: string, others: Iterable<string> = cluster.nodes.keys()): void {
  for (const other of others) {
    if (other === name) continue;
    cluster.cut.add(`${name}>${other}`).add(`${other}>${name}`);
  }
}
