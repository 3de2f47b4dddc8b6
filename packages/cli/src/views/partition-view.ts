import type { ClusterPartition, PartitionState } from '@taskmaster/client';
import { bytes, count, countOf } from './format.ts';
import type { Column } from './table.ts';

/** A partition for programs. Fields that do not apply or are unknown are left out. */
export function partitionObject({ holder, movingTo, ...partition }: ClusterPartition): object {
  const { id, epoch, state, queues, tasks, wanted } = partition;
  const moving = movingTo && { movingTo: movingTo.name, movedRows: movingTo.rows, movedBytes: movingTo.bytes };
  return { id, holder: holder?.name, holderNodeId: holder?.nodeId, epoch, state, queues, tasks, wanted, ...moving };
}

export const partitionColumns: readonly Column<ClusterPartition>[] = [
  { title: 'ID', align: 'right', cell: ({ id }) => String(id) },
  { title: 'HOLDER', cell: ({ holder }) => holder?.name ?? '?' },
  { title: 'EPOCH', align: 'right', cell: ({ epoch }) => String(epoch) },
  { title: 'STATE', cell: ({ state }) => state },
  { title: 'QUEUES', align: 'right', cell: ({ queues }) => count(queues) },
  { title: 'TASKS', align: 'right', cell: ({ tasks }) => count(tasks) },
  { title: 'MOVING TO', cell: movingText },
];

function movingText({ movingTo, holder, wanted }: ClusterPartition): string {
  if (movingTo !== undefined) {
    return `${movingTo.name}, ${countOf(movingTo.rows, 'row')}, ${bytes(movingTo.bytes)} sent`;
  }
  return wanted === undefined || wanted === holder?.name ? '-' : `${wanted}, waiting`;
}

/** Whether a partition moves to another node, or waits to move. */
export function isMoving({ state, movingTo, holder, wanted }: ClusterPartition): boolean {
  if (movingTo !== undefined || state === 'moving' || state === 'frozen' || state === 'unresolved') return true;
  return wanted !== undefined && wanted !== holder?.name;
}

/** Partitions with the same holder and state. */
export interface HolderGroup {
  /** Undefined: unknown. */
  readonly holder: string | undefined;
  readonly state: PartitionState;
  readonly ids: readonly number[];
  readonly queues: number;
  readonly tasks: number;
}

/** Groups by holder, the unknown holder last. */
export function holderGroups(partitions: readonly ClusterPartition[]): readonly HolderGroup[] {
  const groups = new Map<string, ClusterPartition[]>();
  for (const partition of partitions) {
    const key = `${partition.holder?.nodeId ?? ''} ${partition.state}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [partition]);
    else group.push(partition);
  }
  return [...groups.values()].flatMap(groupOf).sort(byHolder);
}

function groupOf(partitions: readonly ClusterPartition[]): HolderGroup[] {
  const [first] = partitions;
  if (first === undefined) return [];
  const sum = (of: (partition: ClusterPartition) => number): number => partitions.reduce((n, one) => n + of(one), 0);
  return [
    {
      holder: first.holder?.name,
      state: first.state,
      ids: partitions.map(({ id }) => id),
      queues: sum(({ queues }) => queues),
      tasks: sum(({ tasks }) => tasks),
    },
  ];
}

function byHolder(a: HolderGroup, b: HolderGroup): number {
  if (a.holder !== b.holder) {
    if (a.holder === undefined) return 1;
    if (b.holder === undefined) return -1;
    return a.holder < b.holder ? -1 : 1;
  }
  return b.ids.length - a.ids.length;
}

export function groupObject({ holder, state, ids, queues, tasks }: HolderGroup): object {
  return { holder, state, partitions: ids.length, queues, tasks, ids };
}

/** Longest list of ids with which the table fits into 80 columns. */
const IDS_WIDTH = 28;

export const groupColumns: readonly Column<HolderGroup>[] = [
  { title: 'HOLDER', cell: ({ holder }) => holder ?? '?' },
  { title: 'STATE', cell: ({ state }) => state },
  { title: 'PARTITIONS', align: 'right', cell: ({ ids }) => count(ids.length) },
  { title: 'QUEUES', align: 'right', cell: ({ queues }) => count(queues) },
  { title: 'TASKS', align: 'right', cell: ({ tasks }) => count(tasks) },
  { title: 'IDS', cell: ({ ids }) => idRuns(ids, IDS_WIDTH) },
];

/** Footer of the table of groups. */
export function groupsRow(groups: readonly HolderGroup[]): readonly string[] {
  const sum = (of: (group: HolderGroup) => number): string => count(groups.reduce((n, one) => n + of(one), 0));
  const holders = new Set(groups.flatMap(({ holder }) => holder ?? [])).size;
  return [
    countOf(holders, 'holder'),
    '',
    sum(({ ids }) => ids.length),
    sum(({ queues }) => queues),
    sum(({ tasks }) => tasks),
  ];
}

/** Ascending numbers as ranges: `0-3, 7, 9-10`. Beyond `maxLength` characters the list ends with `...`. */
export function idRuns(ids: readonly number[], maxLength = Number.POSITIVE_INFINITY): string {
  const runs: string[] = [];
  let length = 0;
  for (let at = 0; at < ids.length; ) {
    const first = ids[at] ?? 0;
    let next = at + 1;
    while (ids[next] === first + (next - at)) next++;
    const run = next === at + 1 ? String(first) : `${first}-${first + (next - at) - 1}`;
    length += run.length + SEPARATOR.length;
    if (length > maxLength && runs.length > 0) return `${runs.join(SEPARATOR)}${SEPARATOR}...`;
    runs.push(run);
    at = next;
  }
  return runs.join(SEPARATOR);
}

const SEPARATOR = ', ';
