import type { HeldPartition } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf, type RemoveMemberResponse } from '@taskmaster/proto';
import type { MemberRecord } from '@taskmaster/server/cluster-view';
import { expect } from 'vitest';
import { ClusterAdministration } from '../cluster/membership/administration.ts';
import { SimCluster, type SimClusterOptions, type SimNode } from './sim-cluster.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export const GROUPS: readonly string[] = Array.from({ length: 40 }, (_, i) => `group-${i}`);

/** A cluster whose nodes joined one after the other. Each holds its share of the partitions. */
export async function clusterOf(names: readonly string[], options: SimClusterOptions = {}): Promise<SimCluster> {
  const cluster = new SimCluster(options);
  for (const name of names) {
    await cluster.run(cluster.add(name).start());
    await cluster.pass(30_000);
  }
  return cluster;
}

/** Enqueues a task in every group, at its holder. */
export async function fill(cluster: SimCluster, pid: string): Promise<void> {
  for (const group of GROUPS) {
    const holder = cluster.holderOf(group);
    if (!holder) throw new Error(`no node serves ${group}`);
    await cluster.run(holder.h.enqueue(`${group}#q`, [pid]));
  }
}

/** Groups of this node's partitions. */
export const groupsOf = (cluster: SimCluster, node: SimNode): string[] =>
  GROUPS.filter((group) => node.partitions.holds(partitionOf(group, cluster.partitions) as PartitionId));

/** A queue in a group of this node's partitions. */
export function queueOf(cluster: SimCluster, node: SimNode): string {
  const [group] = groupsOf(cluster, node);
  if (group === undefined) throw new Error(`node ${node.name} holds nothing`);
  return `${group}#q`;
}

export const idsHeldBy = (node: SimNode): PartitionId[] => node.partitions.held().map(({ id }) => id);

/** A partition of this node that has tasks. */
export function partitionWithTasks(node: SimNode): HeldPartition {
  const held = node.partitions.held().find(({ tasks }) => tasks > 0);
  if (!held) throw new Error(`node ${node.name} holds no tasks`);
  return held;
}

/** Cuts a node off when a target is asked to take a partition, so that the sender does not learn the outcome. */
export function cutOffAtTake(cluster: SimCluster, name: string): void {
  cluster.network.onArrival = ({ what, way }) => {
    if (what === 'takePartition' && way === 'request') cutOff(cluster, name);
  };
}

/** The calls for operators at a node. */
export function administrationOf(cluster: SimCluster, name: string): ClusterAdministration {
  const node = cluster.node(name);
  const { agent, membership } = node;
  const call = cluster.callFrom(name, node.h.clock);
  return new ClusterAdministration({ agent, membership, call, clusterId: 'cluster-1', log: SILENT });
}

/** A time in which gossip surely declares a silent node dead. */
export const DEATH_MS = 10_000;
/** Longer than the claim of lost partitions takes. */
export const CLAIM_MS = 10_000;

/** Simulates a power loss of these nodes. */
export async function lose(cluster: SimCluster, ...names: string[]): Promise<void> {
  for (const name of names) await cluster.run(cluster.node(name).lose());
}

/** Starts these nodes one after the other. */
export async function start(cluster: SimCluster, ...names: string[]): Promise<void> {
  for (const name of names) await cluster.run(cluster.node(name).start());
}

/** The state of a member in the records of node `through`. */
export const stateOf = (cluster: SimCluster, through: string, name: string): MemberRecord['state'] | undefined =>
  cluster.node(through).agent.members.get(`id-${name}`)?.state;

export interface RemovalRequest {
  readonly acceptLoss: boolean;
  /** See `RemovalOptions`. Default 0. */
  readonly waitMs?: number;
}

/** Asks node `through` to remove members. The caller must advance the time until it resolves. */
export function requestRemoval(
  cluster: SimCluster,
  through: string,
  names: readonly string[],
  { acceptLoss, waitMs = 0 }: RemovalRequest,
): Promise<RemoveMemberResponse> {
  const [name = '', ...also] = names;
  return administrationOf(cluster, through).removeMember({ name, also, acceptLoss, waitMs });
}

/** Removes members through that node and accepts the loss. */
export const removeMembers = (
  cluster: SimCluster,
  through: string,
  ...names: string[]
): Promise<RemoveMemberResponse> => cluster.run(requestRemoval(cluster, through, names, { acceptLoss: true }));

/** Reports what a removal would lose, and removes nothing. */
export const reportOn = (cluster: SimCluster, through: string, ...names: string[]): Promise<RemoveMemberResponse> =>
  cluster.run(requestRemoval(cluster, through, names, { acceptLoss: false }));

/** PIDs of the group's tasks that `fill` has enqueued and that still exist. */
export async function pidsIn(cluster: SimCluster, group: string): Promise<string[]> {
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`no node serves ${group}`);
  return pidsOf(await cluster.run(holder.h.lease(`${group}#q`, { max: 9, for: 1 })));
}

/** Every partition must have one holder among the members that have not left. */
export function expectOneHolderEach(cluster: SimCluster): void {
  for (let id = 0; id < cluster.partitions; id++) {
    const holders = cluster
      .serving(id as PartitionId)
      .filter((name) => cluster.node(name).agent.self?.state !== 'left');
    expect(holders, `holders of ${id}`).toHaveLength(1);
  }
}

/** Cuts a node off from the other nodes, in both directions. Default: from all. */
export function cutOff(cluster: SimCluster, name: string, others: Iterable<string> = cluster.nodes.keys()): void {
  for (const other of others) {
    if (other === name) continue;
    cluster.cut.add(`${name}>${other}`).add(`${other}>${name}`);
  }
}
