import { bytesCodec, type GetOptions, isTaskMasterError, type Queue, type TaskName } from '@taskmaster/client';
import { isByKey } from '@taskmaster/client/internal';
import { limits } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { collected, queueName, wholeNumber } from '../input/arguments.ts';
import { addTaskNames, type KeyFlags, taskNames } from '../input/task-names.ts';
import type { Runner, Session } from '../session/session.ts';
import { CommandFailedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { count } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { tableOf } from '../views/table.ts';
import { type SeenTask, taskColumns, taskObject } from '../views/task-view.ts';

const peekNotes = `
The command leases nothing. It exits with 4 if there is no such task. --kind '' stands for tasks without a kind.

Examples:
  $ taskmaster peek shop#mail --data
  $ taskmaster peek shop#mail --leased --limit 100
  $ taskmaster peek images --kind 'resize@*'
  $ taskmaster peek shop#mail --json --data | jq -r .data`;

const getNotes = `
The command exits with 4 if one of the tasks is not in the queue.

Examples:
  $ taskmaster get shop#mail order-17 order-18
  $ taskmaster get shop#orders --key order-17
  $ taskmaster get shop#mail order-17 --raw > order.json`;

interface PeekFlags {
  readonly leased?: true;
  readonly delayed?: true;
  readonly waiting?: true;
  readonly kind?: readonly string[];
  readonly limit: number;
  readonly data?: true;
}

interface GetFlags extends KeyFlags {
  readonly data?: true;
  readonly raw?: true;
}

export function addInspection(program: Command, runner: Runner): void {
  program
    .command('peek')
    .summary('show tasks without leasing them')
    .description('Shows the tasks that would be leased next, or a sample of the leased, delayed or waiting tasks.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName)
    .addOption(
      new Option('--leased', 'leased tasks and their workers; leases that end first come first').conflicts([
        'delayed',
        'waiting',
      ]),
    )
    .addOption(
      new Option('--delayed', 'tasks hidden by a delay or a backoff; tasks available first come first').conflicts(
        'waiting',
      ),
    )
    .option('--waiting', 'tasks that wait for signals or for their order')
    .option('--kind <pattern>', 'only tasks of this kind, such as resize@*; may be given many times', collected)
    .addOption(
      new Option('-n, --limit <n>', 'largest number of tasks').argParser(wholeNumber(1, limits.peekTasks)).default(10),
    )
    .option('--data', 'show the payloads and headers too')
    .addHelpText('after', notesOf(peekNotes))
    .action((queue: string, flags: PeekFlags) => runner.connected((session) => peek(session, queue, flags), [queue]));
  const command = program
    .command('get')
    .summary('show the state of tasks by their PIDs or keys')
    .description(
      'Shows the state of tasks: available, leased (with the worker), delayed (with the remaining time) or not found.',
    )
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(command)
    .option('--data', 'show the payloads and headers too')
    .option('--raw', 'write only the payload of one task, byte for byte')
    .addHelpText('after', notesOf(getNotes))
    .action((queue: string, pids: readonly string[], flags: GetFlags) => {
      const names = taskNames(pids, flags);
      if (flags.raw && names.length > 1)
        throw new UsageError('--raw writes the payload of one task; give one PID or key');
      return runner.connected((session) => get(session, queue, names, flags), [queue]);
    });
}

/** PIDs in one request. The limit is 1,000, but 1,000 of the longest PIDs do not fit into a request. */
const GET_PIDS = 500;

async function peek(session: Session, name: string, flags: PeekFlags): Promise<ExitCode> {
  const { out, client, signal } = session;
  const kind = flags.leased ? 'leased' : flags.delayed ? 'delayed' : flags.waiting ? 'waiting' : 'head';
  const data = flags.data ?? false;
  const queue = client.queue(name, { codec: bytesCodec });
  const tasks = await queue.peek({ kind, kinds: flags.kind, limit: flags.limit, data, signal });
  if (out.json) {
    for (const task of tasks) await out.object(taskObject(task));
  } else if (tasks.length === 0) {
    session.err.line(`${queue.name}: no ${kind === 'head' ? 'available' : kind} tasks`);
  } else {
    const columns = taskColumns(kind === 'head' ? 'available' : kind, tasks, out, data, Date.now());
    await out.block(tableOf(tasks, columns, out.stream));
  }
  return tasks.length === 0 ? exitCodes.nothing : exitCodes.ok;
}

async function get(session: Session, name: string, names: readonly TaskName[], flags: GetFlags): Promise<ExitCode> {
  const { out, client, signal } = session;
  const data = flags.data === true || flags.raw === true;
  const queue = client.queue(name, { codec: bytesCodec });
  let missing = 0;
  for (let at = 0; at < names.length; at += GET_PIDS) {
    const tasks = await getTasks(queue, names.slice(at, at + GET_PIDS), { data, signal });
    missing += tasks.filter(({ state }) => state === 'not-found').length;
    if (flags.raw) {
      await out.write(tasks[0]?.bytes ?? '');
    } else if (out.json) {
      for (const task of tasks) await out.object(taskObject(task));
    } else {
      const columns = taskColumns('any', tasks, out, data, Date.now());
      await out.block(tableOf(tasks, columns, out.stream, { header: at === 0 }));
    }
  }
  if (missing === 0) return exitCodes.ok;
  if (flags.raw) {
    throw new CommandFailedError(
      'TASK_NOT_FOUND',
      `${queue.name} has no task with this ${isByKey(names[0] ?? '') ? 'key' : 'PID'}`,
      {
        exitCode: exitCodes.nothing,
      },
    );
  }
  if (!out.json) session.err.line(`${queue.name}: ${count(missing)} of ${count(names.length)} not found`);
  return exitCodes.nothing;
}

/** The state of these tasks. If the reply would be too large, the node refuses the request, and two requests replace it. */
async function getTasks(
  queue: Queue<Uint8Array>,
  names: readonly TaskName[],
  options: GetOptions,
): Promise<SeenTask[]> {
  try {
    return await queue.get(names, options);
  } catch (error) {
    const isTooMuch = isTaskMasterError(error) && error.reason === 'TOO_MANY_ITEMS';
    if (!isTooMuch || names.length < 2) throw error;
    const half = Math.ceil(names.length / 2);
    const first = await getTasks(queue, names.slice(0, half), options);
    return [...first, ...(await getTasks(queue, names.slice(half), options))];
  }
}
