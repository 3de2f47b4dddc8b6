import type { Command } from 'commander';
import { queueName } from '../../input/arguments.ts';
import { assertCanAsk, isConfirmed } from '../../session/confirm.ts';
import type { Runner, Session } from '../../session/session.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { count, countOf } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';

const deleteNotes = `
The command takes the same short time for a queue of any size. It cannot be undone. On a terminal it asks for confirmation;
elsewhere it needs --yes. A queue without tasks is no error.

Examples:
  $ taskmaster delete-queue shop#mail.dead
  $ taskmaster delete-queue shop#mail.dead --yes`;

const resetNotes = `
Use it when the workers of a queue have crashed, so that other workers do not have to wait until the leases end. A worker that
still runs loses its task: it gets LEASE_LOST when it completes the task, and another worker repeats the work.

Examples:
  $ taskmaster peek shop#mail --leased
  $ taskmaster reset-leases shop#mail`;

export function addAdministration(program: Command, runner: Runner): void {
  program
    .command('delete-queue')
    .summary('delete a queue and all its tasks')
    .description('Deletes a queue and all its tasks, also leased tasks.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', notesOf(deleteNotes))
    .action((queue: string, { yes = false }: { readonly yes?: boolean }) => {
      assertCanAsk(runner.shell, yes, `deletes ${queue}`);
      return runner.connected((session) => deleteQueue(session, queue, yes), [queue]);
    });
  program
    .command('reset-leases')
    .summary('make all leased tasks of a queue available now')
    .description('Makes all leased tasks of a queue available now. Their workers lose them.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName)
    .addHelpText('after', notesOf(resetNotes))
    .action((queue: string) => runner.connected((session) => resetLeases(session, queue), [queue]));
}

async function deleteQueue(session: Session, name: string, yes: boolean): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const queue = client.queue(name);
  if (!yes && !(await isConfirmed(session, await questionOf(session, name)))) {
    err.line('Nothing was deleted.');
    return exitCodes.failed;
  }
  const deletedTasks = await queue.delete({ signal });
  if (out.json) await out.object({ queue: queue.name, deletedTasks });
  else await out.line(`${queue.name}: deleted, with ${countOf(deletedTasks, 'task')}`);
  return exitCodes.ok;
}

async function questionOf({ client, signal }: Session, name: string): Promise<string> {
  const { available, leased, delayed } = await client.queue(name).stats({ signal });
  const tasks = `${countOf(available + leased + delayed, 'task')}, ${count(leased)} of them leased`;
  return `Delete ${name} with ${tasks}?`;
}

async function resetLeases({ client, out, signal }: Session, name: string): Promise<ExitCode> {
  const queue = client.queue(name);
  const resetTasks = await queue.resetLeases({ signal });
  if (out.json) await out.object({ queue: queue.name, resetTasks });
  else await out.line(`${queue.name}: ${countOf(resetTasks, 'leased task')} made available`);
  return exitCodes.ok;
}
