import type { Command } from 'commander';
import { queueName } from '../input/arguments.ts';
import { addTaskNames, type KeyFlags, taskNames } from '../input/task-names.ts';
import type { Runner } from '../session/session.ts';
import { notesOf } from '../views/help.ts';
import { type Settling, settleTasks } from './settle-tasks.ts';

const notes = `
A task that waits is removed at once. A leased task is marked: its worker is told within a second, and the task is removed when its
attempt ends, unless the worker completes it. \`taskmaster wait\` says that a task was cancelled.

Examples:
  $ taskmaster cancel shop#mail order-17
  $ taskmaster cancel shop#orders --key order-17
  $ taskmaster cancel shop#mail order-17 order-18 --reason 'the customer has left'`;

interface CancelFlags extends KeyFlags {
  readonly reason?: string;
  readonly atomic?: boolean;
}

export function addCancel(program: Command, runner: Runner): void {
  const command = program
    .command('cancel')
    .summary('remove tasks, and stop the work on them')
    .description('Removes tasks that wait, and tells the workers of leased tasks to stop.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(command)
    .option('--reason <text>', 'why, for the worker and for those who wait for the task')
    .option('--atomic', 'all tasks in one update: all or none')
    .addHelpText('after', notesOf(notes))
    .action((queue: string, pids: readonly string[], flags: CancelFlags) => {
      const { reason, atomic = false } = flags;
      const source = { queue, names: taskNames(pids, flags), leaseToken: undefined, force: true, file: undefined };
      const settling = {
        done: 'cancelled',
        add: (update, ref) => update.cancel(ref.queue, ref.name, reason),
        describe: () => ({}),
      } satisfies Settling;
      return runner.connected((session) => settleTasks(session, source, settling, atomic), [queue]);
    });
}
