import type { Command } from 'commander';
import type { RemoveOutcome } from '../../api/cluster.ts';
import { assertCanAsk, isConfirmed } from '../confirm.ts';
import { escapeControls } from '../input/bytes-text.ts';
import { CommandFailedError } from '../output/cli-errors.ts';
import { type ExitCode, exitCodes } from '../output/exit-codes.ts';
import { countOf } from '../output/format.ts';
import { notesOf } from '../output/help.ts';
import { lossColumns, lossMemberColumn, lossText, removalObject } from '../output/member-view.ts';
import { Progress } from '../output/progress.ts';
import { tableOf } from '../output/table.ts';
import type { Runner, Session } from '../session.ts';

const notes = `
For members whose disks are gone: what only they held is lost, their partitions begin anew, empty, with the others, some
seconds later; it waits for that. They are refused if they ever come back. They must be stopped: one that runs, cut off from the others, serves on until it
hears of it, and what it acknowledges meanwhile is lost. A member that only stopped loses nothing: start
it again. One that runs is drained instead. All other members must answer: name all that are lost at once.

Without --accept-loss it says what would be lost, changes nothing, and exits with 1. Asks first on a terminal; elsewhere
--yes is needed.

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
    .summary('give up members that will not come back')
    .description('Gives up members that will not come back, all or none, and whatever only they held.')
    .argument('<name...>', 'of the members')
    .option('--accept-loss', 'what only they held is lost')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', notesOf(notes))
    .action((given: readonly string[], { acceptLoss, yes = false }: RemoveFlags) => {
      const names = [...new Set(given)];
      if (acceptLoss) assertCanAsk(runner.shell, yes, `gives ${names.join(', ')} up`);
      return runner.connected((session) => (acceptLoss ? remove(session, names, yes) : report(session, names)));
    });
}

async function report({ client, out, signal }: Session, names: readonly string[]): Promise<ExitCode> {
  const outcome = await client.cluster.remove(names, { signal });
  if (out.json) await out.object(removalObject(names, outcome));
  else await out.line(reportText(names, outcome, out.stream));
  throw new CommandFailedError('LOSS_NOT_ACCEPTED', 'nothing was changed', {
    hint: `to give ${names.join(', ')} up for good: taskmaster members remove ${names.join(' ')} --accept-loss`,
  });
}

async function remove(session: Session, names: readonly string[], yes: boolean): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const shown = escapeControls(names.join(', '));
  if (!out.json) {
    const planned = await client.cluster.remove(names, { signal });
    await out.line(reportText(names, planned, out.stream));
    if (!yes && !(await isConfirmed(session, `Give ${shown} up, and lose ${lossText(planned.lost)}?`))) {
      err.write('Nothing was changed.\n');
      return exitCodes.failed;
    }
  }
  const outcome = await removing(session, names);
  if (out.json) {
    await out.object(removalObject(names, outcome));
  } else {
    const takenBack = outcome.takenBackBy.length === 0 ? '' : `; ${takenBackText(outcome.takenBackBy)}`;
    await out.line(`${shown}: given up; lost: ${lossText(outcome.lost)}${takenBack}`);
  }
  if (!outcome.claimed) {
    const partitions = `${countOf(outcome.lost.length, 'partition')} will be served again`;
    err.write(`${partitions} once all members that are left have answered; \`taskmaster partitions\` shows it\n`);
  }
  return exitCodes.ok;
}

/** Takes some seconds, in which what is lost begins anew. */
async function removing({ client, out, err, signal }: Session, names: readonly string[]): Promise<RemoveOutcome> {
  const line = `${escapeControls(names.join(', '))}: being given up, until others serve what is lost`;
  using _progress = out.json ? undefined : new Progress({ stream: err, line: () => line });
  return await client.cluster.remove(names, { acceptLoss: true, signal });
}

/** What would be lost: in all, and by partition where there is anything to lose. */
function reportText(
  names: readonly string[],
  { lost, takenBackBy }: RemoveOutcome,
  stream: Session['out']['stream'],
): string {
  const isOne = names.length === 1;
  const holds = isOne ? 'it holds' : 'they hold';
  const lines = [`${escapeControls(names.join(', '))}: only ${holds} ${lossText(lost)}, as last heard of`];
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
    `Make sure that ${escapeControls(names.join(', '))} ${are} stopped: what ${they} still ${acknowledge} is lost.`,
  );
  return lines.join('\n');
}

function takenBackText(names: readonly string[]): string {
  return `not lost, since ${escapeControls(names.join(', '))} still ${names.length === 1 ? 'has' : 'have'} it: what was on its way there`;
}
