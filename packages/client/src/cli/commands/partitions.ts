import { type Command, Option } from 'commander';
import type { ClusterPartition } from '../../api/cluster.ts';
import { escapeControls } from '../input/bytes-text.ts';
import { type ExitCode, exitCodes } from '../output/exit-codes.ts';
import { notesOf } from '../output/help.ts';
import {
  groupColumns,
  groupObject,
  groupsRow,
  holderGroups,
  isMoving,
  partitionColumns,
  partitionObject,
} from '../output/partition-view.ts';
import { tableOf } from '../output/table.ts';
import type { Runner, Session } from '../session.ts';

const notes = `
Alone it shows how many partitions each node holds and in which state, then each one that moves or does not stand as it
should. With --json it always shows each, unless --summary is given.

A serving partition is served, a moving one too while it is sent to another node; callers of a frozen one wait for the
moment of its hand-over. Of an unresolved one the new holder has not said yet whether it took it. The holder of an
unreachable one does not answer: QUEUES and TASKS are what it last said. EPOCH counts the changes of the holder.

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

/** As many as are shown one by one without being asked for. */
const SHOWN_UNASKED = 20;

export function addPartitions(program: Command, runner: Runner): void {
  program
    .command('partitions')
    .summary('show which node holds which part of the groups')
    .description('Shows which node holds which of the partitions, into which the groups of all queues are divided.')
    .option('-a, --all', 'each partition')
    .option('--holder <name>', 'each partition that this node holds')
    .option('--moving', 'each partition that moves, or is to move, to another node')
    .addOption(new Option('--summary', 'only how many each node holds').conflicts('all'))
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
    const whose = holder === undefined ? '' : ` of ${escapeControls(holder)}`;
    err.write(`no partitions${whose}${moving ? ' that move' : ''}\n`);
  } else if (one) {
    await out.line(tableOf(chosen, partitionColumns, out.stream));
  } else {
    const groups = holderGroups(chosen);
    await out.line(tableOf(groups, groupColumns, out.stream, { footer: groupsRow(groups) }));
    if (!summary) await showUnsettled({ out, err }, chosen);
  }
  if (unreachable.length > 0) {
    const names = escapeControls(unreachable.join(', '));
    err.write(
      `${names} did not answer: what is shown of ${unreachable.length === 1 ? 'it' : 'them'} is what was last heard\n`,
    );
  }
  return exitCodes.ok;
}

/** Below the summary. Of a node that is gone all are unreachable: the summary says that better. */
async function showUnsettled(
  { out, err }: Pick<Session, 'out' | 'err'>,
  partitions: readonly ClusterPartition[],
): Promise<void> {
  const moving = partitions.filter((partition) => isMoving(partition) && partition.state !== 'unreachable');
  if (moving.length === 0) return;
  // Those under way before those that wait their turn.
  const underWay = moving.filter(({ state }) => state !== 'serving');
  const waiting = moving.filter(({ state }) => state === 'serving');
  const shown = [...underWay, ...waiting].slice(0, Math.max(SHOWN_UNASKED, underWay.length));
  await out.line();
  await out.line(tableOf(shown, partitionColumns, out.stream));
  const hidden = moving.length - shown.length;
  if (hidden > 0) err.write(`${hidden} more wait to be moved; --moving shows them\n`);
}
