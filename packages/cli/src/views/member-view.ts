import type { ClusterMember, ClusterNode, LostPartition, RemoveOutcome } from '@taskmaster/client';
import { count, countOf } from './format.ts';
import type { Column } from './table.ts';

/** A member for programs. Fields that do not apply or are unknown are left out. */
export function memberObject(member: ClusterMember): object {
  const { name, nodeId, role, alive, suspect, version, rpcAddress, gossipAddress, httpAddress } = member;
  const held =
    member.role === 'node'
      ? { state: member.state, held: member.partitionsHeld, wanted: member.partitionsWanted }
      : undefined;
  const removedBy = member.role === 'node' ? member.removedBy : undefined;
  return {
    name,
    nodeId,
    role,
    ...held,
    alive,
    suspect,
    version,
    rpcAddress,
    gossipAddress,
    httpAddress,
    removedBy,
  };
}

export const memberColumns: readonly Column<ClusterMember>[] = [
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'STATE', cell: stateOf },
  { title: 'ALIVE', cell: aliveOf },
  { title: 'HELD', align: 'right', cell: (member) => (member.role === 'node' ? count(member.partitionsHeld) : '-') },
  {
    title: 'WANTED',
    align: 'right',
    cell: (member) => (member.role === 'node' ? count(member.partitionsWanted) : '-'),
  },
  { title: 'VERSION', cell: ({ version }) => version ?? '-' },
  { title: 'ADDRESS', cell: ({ rpcAddress }) => rpcAddress ?? '-' },
];

function stateOf(member: ClusterMember): string {
  if (member.role === 'proxy') return 'proxy';
  return member.removedBy === undefined ? member.state : `removed by ${member.removedBy}`;
}

/** A member that has left does not have to answer. */
function aliveOf(member: ClusterMember): string {
  if (member.role === 'node' && member.state === 'left') return '-';
  if (!member.alive) return 'no';
  return member.suspect ? 'suspect' : 'yes';
}

/** Footer of the table: sums over the nodes that have not left. */
export function membersRow(nodes: readonly ClusterNode[]): readonly string[] {
  const sum = (of: (node: ClusterNode) => number): string => count(nodes.reduce((total, node) => total + of(node), 0));
  const alive = nodes.filter((node) => node.alive).length;
  return [
    countOf(nodes.length, 'node'),
    '',
    count(alive),
    sum(({ partitionsHeld }) => partitionsHeld),
    sum(({ partitionsWanted }) => partitionsWanted),
  ];
}

/** The outcome of a removal, for programs. */
export function removalObject(
  names: readonly string[],
  { removed, claimed, lost, takenBackBy }: RemoveOutcome,
): object {
  return { names, removed, claimed, lost: lost.map(({ counted, ...rest }) => ({ ...rest, ...counted })), takenBackBy };
}

/** `1,234 tasks in 12 queues of 85 partitions`. Says for how many partitions the counts are unknown. */
export function lossText(lost: readonly LostPartition[]): string {
  if (lost.length === 0) return 'nothing';
  const partitions = countOf(lost.length, 'partition');
  const counted = lost.flatMap((partition) => partition.counted ?? []);
  if (counted.length === 0) return `${partitions} with unknown content`;
  const tasks = counted.reduce((sum, one) => sum + one.tasks, 0);
  const queues = counted.reduce((sum, one) => sum + one.queues, 0);
  const unknown = lost.length - counted.length;
  const more = unknown === 0 ? '' : ` (${count(unknown)} with unknown content)`;
  return `${countOf(tasks, 'task')} in ${countOf(queues, 'queue')} of ${partitions}${more}`;
}

export const lossColumns: readonly Column<LostPartition>[] = [
  { title: 'PARTITION', align: 'right', cell: ({ id }) => String(id) },
  { title: 'QUEUES', align: 'right', cell: ({ counted }) => (counted === undefined ? '?' : count(counted.queues)) },
  { title: 'TASKS', align: 'right', cell: ({ counted }) => (counted === undefined ? '?' : count(counted.tasks)) },
];

/** Column for the removal of several members. */
export const lossMemberColumn: Column<LostPartition> = { title: 'MEMBER', cell: ({ member }) => member ?? '?' };
