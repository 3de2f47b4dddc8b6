import { bytesCodec, type Codec } from '@taskmaster/client';
import type { Command } from 'commander';
import { payload, queueName } from '../input/arguments.ts';
import { addTaskNames, type KeyFlags, nameObject, nameText, taskNames } from '../input/task-names.ts';
import type { Runner, Session } from '../session/session.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { notesOf } from '../views/help.ts';

const notes = `
A task that waits for signals is available after the last one. A signal for a task that is not in the queue is kept for 24 hours.

Examples:
  $ taskmaster signal shop#orders order-17
  $ taskmaster signal shop#orders --key order-17 --id payment-5 --data '{"paid":true}'`;

interface SignalFlags extends KeyFlags {
  readonly id?: string;
  readonly data?: string;
}

export function addSignal(program: Command, runner: Runner): void {
  const command = program
    .command('signal')
    .summary('signal tasks that wait')
    .description('Signals tasks that wait for signals.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(command)
    .option('--id <id>', 'id of the signal; a task counts signals with the same id once')
    .option('--data <data>', 'what the tasks get with the signal')
    .addHelpText('after', notesOf(notes))
    .action((queue: string, pids: readonly string[], flags: SignalFlags) =>
      runner.connected((session) => signalTasks(session, queue, pids, flags), [queue]),
    );
}

async function signalTasks(
  { client, out, signal }: Session,
  name: string,
  pids: readonly string[],
  flags: SignalFlags,
): Promise<ExitCode> {
  const queue = client.queue(name);
  const data = flags.data === undefined ? undefined : payload(flags.data);
  for (const task of taskNames(pids, flags)) {
    const result = await queue.signal(task, { id: flags.id, data, codec: bytesCodec as Codec<unknown>, signal });
    if (out.json) await out.object({ queue: queue.name, ...nameObject(task), result });
    else await out.line(`${result}  ${queue.name}  ${nameText(task)}`);
  }
  return exitCodes.ok;
}
