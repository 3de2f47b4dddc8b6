import {
  type BulkAction,
  type BulkOptions,
  type BulkPreview,
  type BulkProgress,
  type BulkRun,
  type HeaderFilter,
  pidText,
} from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { groupName, lengthOfTime, pattern, queueName, someText, someTime, wholeNumber } from '../input/arguments.ts';
import { filterOption } from '../input/header-filter.ts';
import { runAtOption } from '../input/task-flags.ts';
import { assertCanAsk, isConfirmed } from '../session/confirm.ts';
import type { Runner, Session } from '../session/session.ts';
import { bulkColumns, bulkObject, previewText, progressText } from '../views/bulk-view.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { count } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { Progress } from '../views/progress.ts';
import { tableOf } from '../views/table.ts';
import { taskColumns, taskObject } from '../views/task-view.ts';
import { groupText } from './queues/settings.ts';

const notes = `
The node does the work in the background, and goes on after a crash and when this command ends. Tasks that come into the queues after
the start are left alone. Tasks that a worker has leased are left alone, too, except by cancel. The command first counts the tasks
that match. On a terminal it asks for confirmation; elsewhere it needs --yes.

Examples:
  $ taskmaster bulk retry 'shop#*.dead' --error timeout --newer-than 1h --preview
  $ taskmaster bulk retry 'shop#*.dead' --error timeout --newer-than 1h --rate 500
  $ taskmaster bulk move shop#mail shop#mail-later --where tenant=acme
  $ taskmaster bulk cancel 'shop#*' --key-prefix order-17/ --reason 'the customer has left'
  $ taskmaster bulk runs shop
  $ taskmaster bulk stop shop 5f0c1c9e-7a55-4b6e-9c53-6c8e2b0f9d11`;

interface BulkFlags {
  readonly state?: NonNullable<BulkOptions['tasks']>;
  readonly olderThan?: number;
  readonly newerThan?: number;
  readonly error?: string;
  readonly where?: HeaderFilter;
  readonly keyPrefix?: string;
  readonly kind?: string;
  readonly rate?: number;
  readonly maxTasks?: number;
  readonly id?: string;
  readonly preview?: true;
  readonly yes?: true;
  readonly wait: boolean;
}

interface ActionFlags extends BulkFlags {
  readonly reason?: string;
  readonly delay?: number;
  readonly runAt?: Date;
}

export function addBulk(program: Command, runner: Runner): void {
  const bulk = program
    .command('bulk')
    .summary('retry, move, delete, cancel, reschedule or promote all tasks that match')
    .description('Does the same to all tasks of queues that match a filter.')
    .addHelpText('after', notesOf(notes));
  const add = (action: BulkAction, does: string): Command => withFilter(bulk.command(action).summary(does), does);
  const run = (action: BulkAction, queues: string, { reason, delay, runAt, ...flags }: ActionFlags, to?: string) => {
    const options = { action, queues, to, reason, hide: runAt ?? delay, ...choiceOf(flags) };
    if (!flags.preview) assertCanAsk(runner.shell, flags.yes ?? false, `starts to ${action} tasks of ${queues}`);
    return runner.connected((session) => runBulk(session, options, flags), [queues]);
  };
  add('retry', 'put dead letters back into the queues that they came from').action(
    (queues: string, flags: ActionFlags) => run('retry', queues, flags),
  );
  withFilter(bulk.command('move').summary('move tasks to another queue'), 'move tasks to another queue of the group')
    .argument('<target>', 'queue of the same group', queueName)
    .action((queues: string, target: string, flags: ActionFlags) => run('move', queues, flags, target));
  add('delete', 'remove tasks for ever').action((queues: string, flags: ActionFlags) => run('delete', queues, flags));
  add('cancel', 'cancel tasks, and tell the workers of leased ones')
    .option('--reason <text>', 'why, for the workers and for those who wait for the tasks')
    .action((queues: string, flags: ActionFlags) => run('cancel', queues, flags));
  add('reschedule', 'change when waiting tasks become available')
    .option('--delay <duration>', 'hide the tasks for this time', someTime)
    .addOption(runAtOption('hide the tasks until this time'))
    .action((queues: string, flags: ActionFlags) => run('reschedule', queues, flags));
  add('promote', 'make delayed tasks available now').action((queues: string, flags: ActionFlags) =>
    run('promote', queues, flags),
  );
  bulk
    .command('runs')
    .alias('list')
    .summary('list the bulk runs of a group')
    .description('Lists the bulk runs of a group, the latest one first. Runs are kept for 7 days after their end.')
    .argument('[group]', 'the group (default: the default group)', groupName, '')
    .addHelpText('after', notesOf(notes))
    .action((group: string) => runner.connected((session) => list(session, group), [`${group}#`]));
  bulk
    .command('stop')
    .summary('end a bulk run')
    .description('Ends a bulk run. What it has changed stays changed. Exits with 4 if it does not go on.')
    .argument('<group>', "the group; '' is the default group", groupName)
    .argument('<id>', 'id of the run')
    .addHelpText('after', notesOf(notes))
    .action((group: string, id: string) => runner.connected((session) => stop(session, group, id), [`${group}#`]));
}

function withFilter(command: Command, does: string): Command {
  return command
    .description(`Does this with all tasks that match: ${does}.`)
    .argument('<queues>', 'group#pattern, in which * stands for any number of characters', pattern)
    .addOption(
      new Option('--state <state>', 'only tasks in this state (default: those that the action is about)').choices([
        'available',
        'delayed',
        'leased',
        'dead-letters',
      ]),
    )
    .option('--older-than <duration>', 'only tasks that have been in their queue for at least this time', lengthOfTime)
    .option('--newer-than <duration>', 'only tasks that have been in their queue for at most this time', someTime)
    .option('--error <text>', 'only tasks whose latest error has this text, in upper or lower case', someText)
    .addOption(filterOption())
    .option('--key-prefix <text>', 'only tasks with a key that begins with this text', someText)
    .option('--kind <pattern>', 'only tasks of a kind that matches; * stands for any number of characters', someText)
    .option('--rate <n>', 'tasks per second (default: as many as the node can)', wholeNumber(1, limits.bulkRate))
    .option('--max-tasks <n>', 'end after so many tasks (default: no limit)', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .option('--id <id>', 'name of the run; with the name of an equal run none is started (default: random)')
    .option('--preview', 'only count the tasks that match, and show the first ones')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--no-wait', 'do not wait until the run has ended')
    .addHelpText('after', notesOf(notes));
}

const choiceOf = ({ state, where, olderThan, newerThan, error, keyPrefix, kind, rate, maxTasks }: BulkFlags) => ({
  tasks: state,
  olderThan,
  newerThan,
  error,
  headers: where,
  keyPrefix,
  kind,
  rate,
  maxTasks,
});

async function runBulk(session: Session, options: BulkOptions, flags: BulkFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const preview = flags.preview || !flags.yes ? await previewOf(session, options) : undefined;
  if (preview !== undefined && flags.preview) return show(session, preview);
  if (preview !== undefined) {
    if (preview.matched === 0) {
      err.line(`no task matches: ${previewText(preview)}`);
      return exitCodes.nothing;
    }
    if (!(await isConfirmed(session, `${previewText(preview)}. ${titleOf(options)}?`))) {
      err.line('Nothing was changed.');
      return exitCodes.failed;
    }
  }
  // The answer to the question, or --yes, says so.
  const run = await client.bulk({ ...options, id: flags.id, allTasks: true, signal });
  if (!flags.wait) {
    if (out.json) await out.object({ id: run.id, queues: options.queues });
    else await out.line(`${run.id}: started`);
    return exitCodes.ok;
  }
  return waitFor(session, run);
}

/** Counts the tasks that match. A million may take half a minute on a busy machine. */
async function previewOf({ client, err, signal }: Session, options: BulkOptions): Promise<BulkPreview> {
  let sofar: BulkPreview | undefined;
  using _progress = new Progress({
    stream: err.stream,
    line: () =>
      sofar === undefined ? 'counting tasks' : `${previewText(sofar)}; ${count(sofar.lookedAt)} looked at so far`,
  });
  return await client.previewBulk({ ...options, signal, onProgress: (counted) => (sofar = counted) });
}

const titleOf = ({ action, to }: BulkOptions): string =>
  `${action.charAt(0).toUpperCase()}${action.slice(1)} them${to === undefined ? '' : ` to ${to}`}`;

async function show({ out }: Session, preview: BulkPreview): Promise<ExitCode> {
  const { samples, ...counts } = preview;
  if (out.json) {
    await out.object({ ...counts, samples: samples.map((task) => ({ ...taskObject(task), pid: pidText(task.pid) })) });
  } else {
    await out.line(previewText(preview));
    const columns = taskColumns('any', samples, out, false, Date.now());
    if (samples.length > 0) await out.block(tableOf(samples, columns, out.stream));
  }
  return preview.matched === 0 ? exitCodes.nothing : exitCodes.ok;
}

async function waitFor({ out, err, signal }: Session, run: BulkRun): Promise<ExitCode> {
  let last: BulkProgress | undefined;
  {
    using _progress = new Progress({
      stream: err.stream,
      line: () => (last === undefined ? `${run.id}: started` : `${run.id}: ${progressText(last)}`),
    });
    try {
      last = await run.done({ signal, onProgress: (sofar) => (last = sofar) });
    } catch (error) {
      if (signal.aborted) err.line(`the run goes on: taskmaster bulk stop '${run.group}' ${run.id} ends it`);
      throw error;
    }
  }
  if (last === undefined) {
    err.line(`${run.id}: there is no such run any more`);
    return exitCodes.nothing;
  }
  if (out.json) await out.object(bulkObject(last));
  else await out.line(`${last.id}: ${last.state}, ${progressText(last)}`);
  if (last.problem !== undefined) err.line(last.problem);
  return last.state === 'done' ? exitCodes.ok : exitCodes.failed;
}

async function list({ client, out, err, signal }: Session, group: string): Promise<ExitCode> {
  const runs = await client.bulkRuns(group, { signal });
  if (out.json) for (const run of runs) await out.object(bulkObject(run));
  else if (runs.length === 0) err.line(`no bulk runs in ${groupText(group)}`);
  else await out.block(tableOf(runs, bulkColumns(Date.now()), out.stream));
  return exitCodes.ok;
}

async function stop({ client, out, err, signal }: Session, group: string, id: string): Promise<ExitCode> {
  const run = client.bulkRun(group, id);
  const cancelled = await run.cancel({ signal });
  const progress = await run.progress({ signal });
  if (out.json) await out.object({ id, cancelled, ...(progress && { changed: progress.changed }) });
  else if (progress === undefined) err.line(`no bulk run ${id} in ${groupText(group)}`);
  else await out.line(`${id}: ${progress.state}, ${progressText(progress)}`);
  return cancelled ? exitCodes.ok : exitCodes.nothing;
}
