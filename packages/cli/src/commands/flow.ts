import {
  bytesCodec,
  type Flow,
  type FlowHandle,
  type FlowOfTask,
  pidText,
  TaskExistsError,
  type TaskName,
  type TaskOfFlow,
} from '@taskmaster/client';
import { childRows } from '@taskmaster/proto';
import type { Command } from 'commander';
import { lengthOfTime, queueName } from '../input/arguments.ts';
import { FLOW_DOCUMENT_BYTES, isMistake, readFlow, readHandle } from '../input/flow-document.ts';
import { openInput, readWhole } from '../input/read-input.ts';
import { addTaskNames, type KeyFlags, taskNames } from '../input/task-names.ts';
import type { Runner, Session } from '../session/session.ts';
import { CommandFailedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { errorReport } from '../views/report-error.ts';
import { tableOf } from '../views/table.ts';
import { messagesOfLatestError, taskObject, waitsText } from '../views/task-view.ts';
import { endCode, endLine, endObject, untilOver } from './wait.ts';

const notes = `
First come the tasks for which the task has waited and that have ended, if it collects them, and those for which it still waits.
Then come the task, and those that wait for it, each below the one before it. A task that is not found has ended, or is not
enqueued yet. The command exits with 4 if one of the named tasks is not in the queue.

Examples:
  $ taskmaster flow film#films film-7
  $ taskmaster flow film#cuts --key picture-7 --json
  $ taskmaster flow enqueue film.json`;

const enqueueNotes = `
The document has a list of tasks. Each task has a name that is unique in the flow, a queue, its data, and the names of the tasks
after which it begins. All queues are of one group. data is any JSON; payload is text, or bytes as hex:... or base64:..., as it is.

A document:
  {"tasks": [
    {"name": "cut", "queue": "film#cuts", "data": {"video": 7}, "onFailure": "continue"},
    {"name": "sound", "queue": "film#cuts", "data": {"video": 8}},
    {"name": "film", "queue": "film#films", "data": {"video": 7}, "after": ["cut", "sound"], "collect": true}
  ]}

A task may have all other options of a task of a flow of the client, such as pid, key, delay, runAt, headers, retry, signals and
timeout. Durations are text such as 5m, or numbers of ms. Circles, unknown names and misspelt options are refused before
anything is sent, with exit code 2. The output names each task with its queue and its PID. It marks the last ones, for which no other
waits. With --json it is the handle that \`taskmaster flow wait\` takes.

Examples:
  $ taskmaster flow enqueue film.json
  $ make-flow | taskmaster flow enqueue - --json > handle.json`;

const waitNotes = `
The handle is what \`flow enqueue --json\` writes, or the handle of a flow of the client as JSON. The command waits for the last tasks
of the flow, and shows how they ended, with their results. It exits with 0 if all were completed, with 1 if one went to its
dead-letter queue, was cancelled or removed, and with 4 if one is not in its queue and has left no result, or they have not ended in
time.

Examples:
  $ taskmaster flow wait handle.json --for 10m
  $ taskmaster flow enqueue film.json --json | taskmaster flow wait -`;

export function addFlow(program: Command, runner: Runner): void {
  const flow = program
    .command('flow')
    .summary('show or enqueue tasks that wait for each other')
    .description('Shows the flow of a task, or enqueues one.')
    .helpCommand(false)
    .addHelpText('after', notesOf(`Without a subcommand it shows a flow and has the options of show.\n${notes}`));
  const show = flow
    .command('show', { isDefault: true })
    .summary('show the flow of a task')
    .description('Shows what tasks have waited for, what they still wait for, and the tasks that wait for them.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName);
  addTaskNames(show)
    .addHelpText('after', notesOf(notes))
    .action((queue: string, pids: readonly string[], flags: KeyFlags) =>
      runner.connected((session) => showFlows(session, queue, taskNames(pids, flags)), [queue]),
    );
  flow
    .command('enqueue')
    .summary('enqueue the tasks of a flow')
    .description('Enqueues tasks that wait for each other, from a JSON document, all or none.')
    .argument('<file>', 'file with the document; - is stdin')
    .addHelpText('after', notesOf(enqueueNotes))
    .action((file: string) => runner.connected((session) => enqueueFlow(session, file)));
  flow
    .command('wait')
    .summary('wait until a flow has ended')
    .description('Waits until the last tasks of a flow have ended, and shows how.')
    .argument('<file>', 'file with the handle of the flow; - is stdin')
    .option('--for <duration>', 'how long to wait (default: until the flow has ended)', lengthOfTime)
    .addHelpText('after', notesOf(waitNotes))
    .action((file: string, flags: { readonly for?: number }) =>
      runner.connected((session) => waitForFlow(session, file, flags.for)),
    );
}

async function enqueueFlow(session: Session, file: string): Promise<ExitCode> {
  const { client, out, signal } = session;
  const input = await openInput(file, session);
  const document = await readWhole(input, FLOW_DOCUMENT_BYTES, 'a flow');
  const { tasks } = await commit(readFlow(client, document, input.name), input.name, signal);
  if (out.json) await out.object({ tasks });
  else {
    for (const { name, queue, pid, result, isLast } of tasks)
      await out.line(`${result}  ${queue}  ${pid}  ${name}${isLast ? '  last' : ''}`);
  }
  return exitCodes.ok;
}

async function waitForFlow(session: Session, file: string, timeout: number | undefined): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const input = await openInput(file, session);
  const handle = readHandle(await readWhole(input, FLOW_DOCUMENT_BYTES, 'a flow'), input.name);
  const ends = await untilOver(client.waitForFlow(handle, { codec: bytesCodec, timeout, signal }), timeout);
  if (ends === undefined) {
    if (!out.json) err.line(`${input.name}: the flow has not ended within ${duration(timeout ?? 0)}`);
    return exitCodes.nothing;
  }
  let code: ExitCode = exitCodes.ok;
  for (const { name, queue, pid } of handle.tasks) {
    const end = ends.get(name);
    if (end === undefined) continue;
    if (out.json) await out.object({ name, ...endObject(queue, pid, end) });
    else await out.line(endLine(queue, `${pid}  ${name}`, end));
    if (code !== exitCodes.failed) code = endCode(end) || code;
  }
  return code;
}

/** Enqueues the flow. `where`: its document, for messages. */
async function commit(flow: Flow, where: string, signal: AbortSignal): Promise<FlowHandle> {
  try {
    return await flow.commit({ signal });
  } catch (error) {
    // What the client itself refuses is a mistake in the document.
    if (isMistake(error)) throw new UsageError(`${where}: ${error.message}`);
    if (!(error instanceof TaskExistsError)) throw error;
    const hint =
      'another task has this name, so the flow would never end: give the task of the flow another pid or key';
    throw new CommandFailedError(error.reason, errorReport(error).message, { hint, cause: error });
  }
}

async function showFlows(session: Session, name: string, names: readonly TaskName[]): Promise<ExitCode> {
  const { client, out, signal } = session;
  const queue = client.queue(name);
  let isMissing = false;
  for (const [at, task] of names.entries()) {
    const flow = await queue.flowOf(task, { signal });
    isMissing ||= flow.tasks[0]?.task.state === 'not-found';
    if (out.json) await out.object(flowObject(flow));
    else {
      if (at > 0) await out.line('');
      await out.block(tableOf(rowsOf(flow), columns, out.stream));
    }
    if (flow.isCut && !out.json)
      session.err.line(`more than ${flow.tasks.length} tasks wait for it; the others are left out`);
    if (flow.isUnfinishedCut && !out.json) session.err.line('there may be more tasks for which it waits');
  }
  return isMissing ? exitCodes.nothing : exitCodes.ok;
}

interface Row {
  readonly depth: number;
  readonly queue: string;
  readonly task: string;
  readonly state: string;
  readonly waitsFor: string;
  readonly onFailure: string;
  readonly error: string;
}

const columns = [
  { title: 'QUEUE', cell: ({ depth, queue }: Row) => `${'  '.repeat(depth)}${queue}` },
  { title: 'TASK', cell: ({ task }: Row) => task },
  { title: 'STATE', cell: ({ state }: Row) => state },
  { title: 'WAITS FOR', cell: ({ waitsFor }: Row) => waitsFor },
  { title: 'ON FAILURE', cell: ({ onFailure }: Row) => onFailure },
  { title: 'ERROR', cell: ({ error }: Row) => error },
];

function rowsOf({ ended, tasks, unfinished }: FlowOfTask): Row[] {
  const { before: children, depth: own } = childRows(
    unfinished.map(({ of }) => of),
    ended.length > 0,
  );
  const before = ended.map(({ queue, pid, completed }): Row => {
    const state = completed ? 'completed' : 'not completed';
    return { depth: own - 1, queue, task: pidText(pid), state, waitsFor: '', onFailure: '', error: '' };
  });
  for (const { at, depth } of children) {
    const of = unfinished[at];
    if (of !== undefined) before.push({ depth, ...rowOf(of) });
  }
  const after = Map.groupBy(tasks.keys(), (at) => tasks[at]?.after);
  const rows: Row[] = [];
  // A stack: a chain may be long.
  const left = [{ at: 0, depth: own }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { at, depth } = next;
    const of = tasks[at];
    if (of === undefined) continue;
    rows.push({ depth, ...rowOf(of) });
    left.push(...(after.get(at) ?? []).toReversed().map((child) => ({ at: child, depth: depth + 1 })));
  }
  return [...before, ...rows];
}

function rowOf({ task, onFailure }: Omit<TaskOfFlow, 'after'>): Omit<Row, 'depth'> {
  const name = task.pid.byteLength === 0 ? `key ${task.key ?? ''}` : pidText(task.pid);
  const state = task.waits === undefined ? task.state : 'waiting';
  const [error = ''] = messagesOfLatestError(task);
  return { queue: task.queue, task: name, state, waitsFor: waitsText(task.waits), onFailure: onFailure ?? '', error };
}

const flowObject = ({ ended, unfinished, isUnfinishedCut, tasks, isCut }: FlowOfTask): object => ({
  ended: ended.map(({ pid, ...end }) => ({ ...end, pid: pidText(pid) })),
  unfinished: unfinished.map(({ task, of, onFailure }) => ({ of, onFailure, ...taskObject(task) })),
  ...(isUnfinishedCut && { isUnfinishedCut }),
  tasks: tasks.map(({ task, after, onFailure }) => ({ after, onFailure, ...taskObject(task) })),
  ...(isCut && { isCut }),
});
