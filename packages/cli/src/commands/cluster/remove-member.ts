import type { RemoveOutcome } from '@taskmaster/client';
import { escapeControls } from '@taskmaster/proto';
import type { Command } from 'commander';
import { assertCanAsk, isConfirmed } from '../../session/confirm.ts';
import type { Runner, Session } from '../../session/session.ts';
import { CommandFailedError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { countOf } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { lossColumns, lossMemberColumn, lossText, removalObject } from '../../views/member-view.ts';
import { Progress } from '../../views/progress.ts';
import { tableOf } from '../../views/table.ts';

const notes = `
Remove members whose disks are lost. The tasks that only they held are lost. After some seconds their partitions begin anew,
empty, on other members; the command waits for that. A removed member is refused if it
comes back.

If the disk is not lost, restart the member instead: nothing is lost. Drain a member that runs.

Stop the members first. A member that still runs, cut off from the others, goes on serving until it learns of its removal, and
changes that it acknowledges then are lost. All other members must answer, so name all lost members together.

Without --accept-loss the command reports what would be lost, changes nothing and exits with 1. With it the command asks for
confirmation on a terminal; elsewhere it needs --yes.

Examples:
  $ taskmaster members remove node-b
  $ taskmaster members remove node-b --accept-loss
  $ taskmaster members remove node-b node-c --accept-loss --yes --json`;

interface RemoveFlags {
  readonly acceptLoss?: true;
  readonly yes?: boolean;
}

export function addRemoval(members: Command, runner: Runner): void {
  members
    .command('remove')
    .summary('remove members that will not come back')
    .description(
      'Removes members that will not come back, all of them or none. The tasks that only they held are lost.',
    )
    .argument('<name...>', 'names of the members')
    .option('--accept-loss', 'accept that the tasks that only they held are lost')
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', notesOf(notes))
    .action((given: readonly string[], { acceptLoss, yes = false }: RemoveFlags) => {
      const names = [...new Set(given)];
      if (acceptLoss) assertCanAsk(runner.shell, yes, `removes ${names.join(', ')}`);
      return runner.connected((session) => (acceptLoss ? remove(session, names, yes) : report(session, names)));
    });
}

async function report({ client, out, signal }: Session, names: readonly string[]): Promise<ExitCode> {
  const outcome = await client.cluster.remove(names, { signal });
  if (out.json) await out.object(removalObject(names, outcome));
  else await out.block(reportText(names, outcome, out.stream));
  throw new CommandFailedError('LOSS_NOT_ACCEPTED', 'nothing was changed', {
    hint: `to remove ${names.join(', ')} for good: taskmaster members remove ${names.join(' ')} --accept-loss`,
  });
}

async function remove(session: Session, names: readonly string[], yes: boolean): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const shown = escapeControls(names.join(', '));
  if (!out.json) {
    const planned = await client.cluster.remove(names, { signal });
    await out.block(reportText(names, planned, out.stream));
    if (!yes && !(await isConfirmed(session, `Remove ${shown} and lose ${lossText(planned.lost)}?`))) {
      err.line('Nothing was changed.');
      return exitCodes.failed;
    }
  }
  const outcome = await removing(session, names);
  if (out.json) {
    await out.object(removalObject(names, outcome));
  } else {
    const takenBack = outcome.takenBackBy.length === 0 ? '' : `; ${takenBackText(outcome.takenBackBy)}`;
    await out.line(`${shown}: removed; lost: ${lossText(outcome.lost)}${takenBack}`);
  }
  if (!outcome.claimed) {
    const partitions = `${countOf(outcome.lost.length, 'partition')} will be served again`;
    err.line(`${partitions} when all remaining members have answered; \`taskmaster partitions\` shows it`);
  }
  return exitCodes.ok;
}

/** Removes the members. It takes some seconds until other members serve the lost partitions. */
async function removing({ client, out, err, signal }: Session, names: readonly string[]): Promise<RemoveOutcome> {
  const line = `${escapeControls(names.join(', '))}: removing, until other members serve the lost partitions`;
  using _progress = out.json ? undefined : new Progress({ stream: err.stream, line: () => line });
  return await client.cluster.remove(names, { acceptLoss: true, signal });
}

/** The loss as a sum, and for each partition that is not empty. */
function reportText(
  names: readonly string[],
  { lost, takenBackBy }: RemoveOutcome,
  stream: Session['out']['stream'],
): string {
  const isOne = names.length === 1;
  const holds = isOne ? 'it holds' : 'they hold';
  const lines = [`${escapeControls(names.join(', '))}: only ${holds} ${lossText(lost)}, by the last report`];
  const full = lost.filter(({ counted }) => counted === undefined || counted.tasks > 0 || counted.queues > 0);
  const columns = isOne ? lossColumns : [...lossColumns, lossMemberColumn];
  if (full.length > 0) lines.push(tableOf(full, columns, stream));
  const empty = lost.length - full.length;
  if (full.length > 0 && empty > 0) lines.push(`and ${countOf(empty, 'empty partition')}`);
  if (takenBackBy.length > 0) lines.push(takenBackText(takenBackBy));
  const are = isOne ? 'is' : 'are';
  const they = isOne ? 'it' : 'they';
  const acknowledge = isOne ? 'acknowledges' : 'acknowledge';
  lines.push(
    `Make sure that ${escapeControls(names.join(', '))} ${are} stopped: changes that ${they} still ${acknowledge} are lost.`,
  );
  return lines.join('\n');
}

function takenBackText(names: readonly string[]): string {
  return `not lost: partitions that were moving there, because ${escapeControls(names.join(', '))} still ${names.length === 1 ? 'has' : 'have'} them`;
}
