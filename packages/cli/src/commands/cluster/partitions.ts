import type { ClusterPartition } from '@taskmaster/client';
import { type Command, Option } from 'commander';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import { reportIncomplete } from '../../views/missing-nodes.ts';
import {
  groupColumns,
  groupObject,
  groupsRow,
  holderGroups,
  isMoving,
  partitionColumns,
  partitionObject,
} from '../../views/partition-view.ts';
import { tableOf } from '../../views/table.ts';

const notes = `
Without options it shows the number of partitions by node and state, then the partitions that move or wait to move. With --json
it shows each partition, unless --summary is given.

States:
  serving      the holder serves the partition
  moving       the holder serves the partition and sends it to another node
  frozen       calls wait for a moment, until the new holder serves the partition
  unresolved   the new holder has not confirmed yet that it has the partition
  unreachable  the holder does not answer; QUEUES and TASKS are its last report

EPOCH counts the changes of the holder.

Examples:
  $ taskmaster partitions
  $ taskmaster partitions --moving
  $ taskmaster partitions --holder node-b --json | jq -s 'map(.tasks) | add'`;

interface PartitionFlags {
  readonly holder?: string;
  readonly moving?: true;
  readonly summary?: true;
  readonly all?: true;
}

/** Partitions that move or wait to move, below the summary. More are shown only while more than these move. */
const SHOWN_MOVING = 20;

export function addPartitions(program: Command, runner: Runner): void {
  program
    .command('partitions')
    .summary('show which node holds each partition')
    .description('Shows which node holds each partition. Each group of queues belongs to one partition.')
    .option('-a, --all', 'show each partition')
    .option('--holder <name>', 'show each partition of this node')
    .option('--moving', 'show each partition that moves or waits to move')
    .addOption(new Option('--summary', 'show only the number of partitions by node and state').conflicts('all'))
    .addHelpText('after', notesOf(notes))
    .action((flags: PartitionFlags) => runner.connected((session) => showPartitions(session, flags)));
}

async function showPartitions({ client, out, err, signal }: Session, flags: PartitionFlags): Promise<ExitCode> {
  const { partitions, unreachable } = await client.cluster.partitions({ signal });
  const { holder, moving, summary = false, all = false } = flags;
  const chosen = partitions.filter(
    (partition) => (holder === undefined || partition.holder?.name === holder) && (!moving || isMoving(partition)),
  );
  const one = all || ((holder !== undefined || moving === true) && !summary);
  if (out.json) {
    if (summary) for (const group of holderGroups(chosen)) await out.object(groupObject(group));
    else for (const partition of chosen) await out.object(partitionObject(partition));
  } else if (chosen.length === 0) {
    const whose = holder === undefined ? '' : ` of ${holder}`;
    err.line(`no partitions${whose}${moving ? ' that move' : ''}`);
  } else if (one) {
    await out.block(tableOf(chosen, partitionColumns, out.stream));
  } else {
    const groups = holderGroups(chosen);
    await out.block(tableOf(groups, groupColumns, out.stream, { footer: groupsRow(groups) }));
    if (!summary) await showMoving({ out, err }, chosen);
  }
  if (unreachable.length > 0) {
    const names = unreachable.join(', ');
    const reports = unreachable.length === 1 ? 'its last report' : 'their last reports';
    reportIncomplete({ out, err }, `${names} did not answer; QUEUES and TASKS are from ${reports}`, {
      names: unreachable,
    });
    return exitCodes.incomplete;
  }
  return exitCodes.ok;
}

/** Shows partitions that move or wait to move. Unreachable partitions are only in the summary. */
async function showMoving(
  { out, err }: Pick<Session, 'out' | 'err'>,
  partitions: readonly ClusterPartition[],
): Promise<void> {
  const moving = partitions.filter((partition) => isMoving(partition) && partition.state !== 'unreachable');
  if (moving.length === 0) return;
  // Partitions that move come before partitions that wait.
  const underWay = moving.filter(({ state }) => state !== 'serving');
  const waiting = moving.filter(({ state }) => state === 'serving');
  const shown = [...underWay, ...waiting].slice(0, Math.max(SHOWN_MOVING, underWay.length));
  await out.line();
  await out.block(tableOf(shown, partitionColumns, out.stream));
  const hidden = moving.length - shown.length;
  if (hidden > 0) err.line(`${hidden} more wait to move; --moving shows them`);
}
