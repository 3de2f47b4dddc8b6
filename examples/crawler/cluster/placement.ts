import { setTimeout as delay } from 'node:timers/promises';
import type { ClusterMembers, ClusterNode, ClusterPartitions, MemberState, TaskMasterClient } from '@taskmaster/client';

const POLL_MS = 50;

/** Where the partitions are, as any client of the cluster can ask. */
export interface Placement {
  readonly partitions: number;
  /** Nodes that have left come last. */
  readonly nodes: readonly { readonly name: string; readonly state: MemberState; readonly partitionsHeld: number }[];
  /** Partitions that are not served by the node that should hold them, and why. */
  readonly astray: readonly string[];
}

export async function placementOf(client: TaskMasterClient, signal: AbortSignal): Promise<Placement> {
  const { members } = await client.cluster.members({ signal });
  const { partitions } = await client.cluster.partitions({ signal });
  return {
    partitions: partitions.length,
    nodes: members
      .filter((member) => member.role === 'node')
      .map(({ name, state, partitionsHeld }) => ({ name, state, partitionsHeld })),
    astray: partitions
      .filter(({ state, holder, wanted }) => state !== 'serving' || holder === undefined || holder.name !== wanted)
      .map(({ id, state, holder, wanted }) => `partition ${id}: ${state}, of ${holder?.name}, should be of ${wanted}`),
  };
}

/** The nodes that have not left. */
function nodesOf({ members }: ClusterMembers): readonly ClusterNode[] {
  return members.filter((member) => member.role === 'node').filter(({ state }) => state !== 'left');
}

/** Resolves when the cluster has this number of nodes and each holds exactly the partitions that it should. */
export async function whenSettled(client: TaskMasterClient, nodes: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const all = nodesOf(await client.cluster.members({ signal }));
    const settled = all.filter(
      ({ alive, state, partitionsHeld: held, partitionsWanted: wanted }) =>
        alive && state === 'active' && held === wanted,
    );
    if (settled.length === nodes && all.length === nodes) return;
    await delay(POLL_MS, undefined, { signal });
  }
}

/** Number of hand-offs. Each one raises the epoch of its partition. */
export function handOffs(before: ClusterPartitions, after: ClusterPartitions): number {
  const epochs = ({ partitions }: ClusterPartitions): number => partitions.reduce((sum, { epoch }) => sum + epoch, 0);
  return epochs(after) - epochs(before);
}

/** What a node holds, over all queues. */
export function holdingsOf(
  { partitions }: ClusterPartitions,
  name: string,
): { readonly partitions: number; readonly queues: number; readonly tasks: number } {
  const held = partitions.filter(({ holder }) => holder?.name === name);
  const sum = (of: 'queues' | 'tasks'): number => held.reduce((total, partition) => total + partition[of], 0);
  return { partitions: held.length, queues: sum('queues'), tasks: sum('tasks') };
}
