import type { Command } from 'commander';
import type { RemoveOutcome } from '../cluster.ts';
import { escapeControls } from './bytes-text.ts';
import { CommandFailed } from './cli-errors.ts';
import { assertCanAsk, isConfirmed } from './confirm.ts';
import { type ExitCode, exitCodes } from './exit-codes.ts';
import { countOf } from './format.ts';
import { notesOf } from './help.ts';
import { lossColumns, lossText, removalObject } from './member-view.ts';
import type { Runner, Session } from './session.ts';
import { tableOf } from './table.ts';

const notes = `
For a member whose disk is gone: what only it held is lost, its partitions begin anew, empty, with the others. It is refused
if it ever comes back. A member that only stopped loses nothing: start it again. One that runs is drained instead.

Without --accept-loss it says what would be lost, changes nothing, and exits with 1. Asks first on a terminal; elsewhere
--yes is needed.

Examples:
  $ taskmaster members remove node-b
  $ taskmaster members remove node-b --accept-loss
  $ taskmaster members remove node-b --accept-loss --yes --json`;

interface RemoveFlags {
  readonly acceptLoss?: true;
  readonly yes?: boolean;
}

export function addRemoval(members: Command, runner: Runner): void {
  members
    .command('remove')
    .summary('give up a member that will not come back')
    .description('Gives up a member that will not come back, and whatever only it held.')
    .argument('<name>', 'of the member')
    .option('--accept-loss', 'what only it held is lost')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', notesOf(notes))
    .action((name: string, { acceptLoss, yes = false }: RemoveFlags) => {
      if (acceptLoss) assertCanAsk(runner.shell, yes, `gives ${name} up`);
      return runner.connected((session) => (acceptLoss ? remove(session, name, yes) : report(session, name)));
    });
}

async function report({ client, out, signal }: Session, name: string): Promise<ExitCode> {
  const outcome = await client.cluster.remove(name, { signal });
  if (out.json) await out.object(removalObject(name, outcome));
  else await out.line(reportText(name, outcome, out.stream));
  throw new CommandFailed('LOSS_NOT_ACCEPTED', 'nothing was changed', {
    hint: `to give ${name} up for good: taskmaster members remove ${name} --accept-loss`,
  });
}

async function remove(session: Session, name: string, yes: boolean): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const shown = escapeControls(name);
  if (!out.json) {
    const planned = await client.cluster.remove(name, { signal });
    await out.line(reportText(name, planned, out.stream));
    if (!yes && !(await isConfirmed(session, `Give ${shown} up, and lose ${lossText(planned.lost)}?`))) {
      err.write('Nothing was changed.\n');
      return exitCodes.failed;
    }
  }
  const outcome = await client.cluster.remove(name, { acceptLoss: true, signal });
  if (out.json) {
    await out.object(removalObject(name, outcome));
  } else {
    const takenBack = outcome.takenBackBy.length === 0 ? '' : `; ${takenBackText(outcome.takenBackBy)}`;
    await out.line(`${shown}: given up; lost: ${lossText(outcome.lost)}${takenBack}`);
  }
  return exitCodes.ok;
}

/** What would be lost: in all, and by partition where there is anything to lose. */
function reportText(name: string, { lost, takenBackBy }: RemoveOutcome, stream: Session['out']['stream']): string {
  const lines = [`${escapeControls(name)}: only it holds ${lossText(lost)}, as last heard of`];
  const full = lost.filter(({ counted }) => counted === undefined || counted.tasks > 0 || counted.queues > 0);
  if (full.length > 0) lines.push(tableOf(full, lossColumns, stream));
  const empty = lost.length - full.length;
  if (full.length > 0 && empty > 0) lines.push(`and ${countOf(empty, 'empty partition')}`);
  if (takenBackBy.length > 0) lines.push(takenBackText(takenBackBy));
  return lines.join('\n');
}

function takenBackText(names: readonly string[]): string {
  return `not lost, since ${escapeControls(names.join(', '))} still ${names.length === 1 ? 'has' : 'have'} it: what was on its way there`;
}
