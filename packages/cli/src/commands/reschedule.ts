import type { Command } from 'commander';
import { lengthOfTime, queueName } from '../input/arguments.ts';
import { runAtOption } from '../input/task-flags.ts';
import { addTaskNames, type KeyFlags, taskNames } from '../input/task-names.ts';
import type { Runner } from '../session/session.ts';
import { notesOf } from '../views/help.ts';
import { type Settling, settleTasks } from './settle-tasks.ts';

const notes = `
The tasks must wait: a task that a worker has leased is refused with TASK_LEASED. Without --delay and --run-at they are available
now.

Examples:
  $ taskmaster reschedule shop#reminders order-17 --run-at 2030-01-01T09:00:00Z
  $ taskmaster reschedule shop#reminders order-17 order-18 --delay 2h
  $ taskmaster reschedule shop#reminders order-17
  $ taskmaster reschedule shop#reminders --key order-17 --delay 2h`;

interface RescheduleFlags extends KeyFlags {
  readonly delay?: number;
  readonly runAt?: Date;
  readonly atomic?: boolean;
}

export function addReschedule(program: Command, runner: Runner): void {
  const command = program
    .command('reschedule')
    .summary('change when waiting tasks become available')
    .description('Changes when waiting tasks, available or delayed, become available.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(command)
    .option('--delay <duration>', 'hide the tasks for this time from now', lengthOfTime)
    .addOption(runAtOption('hide the tasks until this time'))
    .option('--atomic', 'all tasks in one update: all or none')
    .addHelpText('after', notesOf(notes))
    .action((queue: string, pids: readonly string[], flags: RescheduleFlags) => {
      const { delay, runAt, atomic = false } = flags;
      const source = { queue, names: taskNames(pids, flags), leaseToken: undefined, force: true, file: undefined };
      const settling = {
        done: 'rescheduled',
        add: (update, ref) => update.reschedule(ref.queue, ref.name, runAt ?? delay ?? 0),
        describe: ({ released: [outcome] }) => ({ hiddenUntil: outcome?.hiddenUntil?.toISOString() }),
        note: ({ released: [outcome] }) => {
          const until = outcome?.hiddenUntil;
          return until === undefined ? 'available now' : `hidden until ${until.toISOString()}`;
        },
      } satisfies Settling;
      return runner.connected((session) => settleTasks(session, source, settling, atomic), [queue]);
    });
}
