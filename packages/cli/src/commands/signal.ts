import { bytesCodec, type Codec, pidText, type ReceivedSignal, type TaskName } from '@taskmaster/client';
import type { Command } from 'commander';
import { payload, queueName, someText } from '../input/arguments.ts';
import { addTaskNames, type KeyFlags, nameObject, nameText, taskNames } from '../input/task-names.ts';
import type { Runner, Session } from '../session/session.ts';
import { previewOf, textOf } from '../views/bytes-text.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { notesOf } from '../views/help.ts';
import { tableOf } from '../views/table.ts';

const notes = `
A task that waits for signals is available after the last one. A signal for a task that is not in the queue is kept for 24 hours.

Examples:
  $ taskmaster signal shop#orders order-17
  $ taskmaster signal shop#orders --key order-17 --id payment-5 --data '{"paid":true}'`;

const readNotes = `
Shown are signals with data, and the ends of the tasks before it if it collects them. With --json the data is complete.

Examples:
  $ taskmaster signals shop#orders order-17
  $ taskmaster signals film#films --key film-7 --json`;

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
    .option('--id <id>', 'id of the signal; a task counts signals with the same id once', someText)
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

export function addSignals(program: Command, runner: Runner): void {
  const command = program
    .command('signals')
    .summary('show what came for a task that waits')
    .description('Shows the signals that came for tasks, and the results of the tasks before them.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(command)
    .addHelpText('after', notesOf(readNotes))
    .action((queue: string, pids: readonly string[], flags: KeyFlags) =>
      runner.connected((session) => showSignals(session, queue, taskNames(pids, flags)), [queue]),
    );
}

const DATA_WIDTH = 60;

const columns = [
  { title: 'ID', cell: ({ id = '-' }: ReceivedSignal) => id },
  { title: 'QUEUE', cell: ({ child }: ReceivedSignal) => child?.queue ?? '-' },
  { title: 'TASK', cell: ({ child }: ReceivedSignal) => (child === undefined ? '-' : pidText(child.pid)) },
  { title: 'COMPLETED', cell: ({ child }: ReceivedSignal) => (child === undefined ? '-' : yesOrNo(child.completed)) },
  {
    title: 'DATA',
    cell: ({ data }: ReceivedSignal<Uint8Array>) => (data === undefined ? '-' : previewOf(data, DATA_WIDTH)),
  },
];

const yesOrNo = (is: boolean): string => (is ? 'yes' : 'no');

async function showSignals(session: Session, name: string, names: readonly TaskName[]): Promise<ExitCode> {
  const { client, out, signal } = session;
  const queue = client.queue(name);
  let found = 0;
  for (const task of names) {
    const signals = await queue.signals(task, { codec: bytesCodec, signal });
    found += signals.length;
    if (!out.json) {
      if (signals.length > 0) await out.block(tableOf(signals, columns, out.stream));
      continue;
    }
    for (const { id, child, data } of signals) {
      const end = child && { queue: child.queue, pid: pidText(child.pid), completed: child.completed };
      const text = data && textOf(data);
      await out.object({ queue: queue.name, ...nameObject(task), id, child: end, data: text });
    }
  }
  if (found === 0) session.err.line('no signals that say something');
  return found === 0 ? exitCodes.nothing : exitCodes.ok;
}
