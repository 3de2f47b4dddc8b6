import type { DeadLettersOutcome, TaskSummary } from '@taskmaster/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { queueName, wholeNumber } from '../../input/arguments.ts';
import { assertNamesOrFilter, type FilterFlags, filterOf } from '../../input/filter-flags.ts';
import { assertCanAsk, isConfirmed } from '../../session/confirm.ts';
import type { Runner, Session } from '../../session/session.ts';
import { UsageError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { count, countOf } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { MissingNodes } from '../../views/missing-nodes.ts';
import { Progress } from '../../views/progress.ts';
import { tableOf } from '../../views/table.ts';
import { deadColumns, messagesOfLatestError, taskObject } from '../../views/task-view.ts';

/** Tasks of a queue that are listed by default. */
const LISTED = 100;
/** Rows of one table, so that memory is bounded. */
const TABLE_ROWS = 1_000;
/** Names of default dead-letter queues. */
const BY_DEFAULT = '\\.dead$';

const listExamples = `
Examples:
  $ taskmaster dead
  $ taskmaster dead list shop#mail.dead --error 'timeout|ECONNRESET' --limit 100
  $ taskmaster dead list --group shop --json | jq -r '.failures[-1].error.details'`;

const listNotes = `
Without names and --regex: all queues whose names end with .dead. Only tasks that came from another queue are listed. ERROR is that of the latest failure; --json has the last five,
with the stack of the latest. The command exits with 4 if there is no such task.
${listExamples}`;

const retryNotes = `
Each task goes back to the queue that it came from, as a waiting task with no attempts. It keeps its data, its retry policy and its
failures. A task stays if its PID is in that queue again. Tasks that came from no other queue are left alone. Up to 1,000 tasks are
put back in one update, all or none.

Examples:
  $ taskmaster dead retry shop#mail.dead
  $ taskmaster dead retry --group shop --error ECONNRESET`;

const dropNotes = `
The tasks are removed for ever; those that came from no other queue are left alone. On a terminal the command asks for confirmation; elsewhere it needs --yes.

Examples:
  $ taskmaster dead drop shop#mail.dead --error 'no such address' --yes`;

interface DeadFlags extends Pick<FilterFlags, 'regex' | 'group'> {
  readonly error?: RegExp;
  readonly limit?: number;
}

interface DropFlags extends DeadFlags {
  readonly yes?: true;
}

export function addDead(program: Command, runner: Runner): void {
  const dead = program
    .command('dead')
    .summary('list, put back or drop the tasks of dead-letter queues')
    .description('Lists tasks whose last attempt has failed, puts them back, or drops them.')
    .helpCommand(false)
    .addHelpText(
      'after',
      notesOf(`Without a subcommand it lists the tasks and has the options of list.\n${listExamples}`),
    );
  const list = addChoice(dead.command('list', { isDefault: true }), 'list the tasks with their errors', LISTED);
  list.addHelpText('after', notesOf(listNotes)).action((names: readonly string[], flags: DeadFlags) => {
    assertNamesOrFilter(names, flags);
    return runner.connected((session) => listDead(session, names, flags));
  });
  const retry = addChoice(dead.command('retry'), 'put the tasks back where they came from');
  retry.addHelpText('after', notesOf(retryNotes)).action((names: readonly string[], flags: DeadFlags) => {
    assertChosen(names, flags);
    return runner.connected((session) => settleDead(session, names, flags, 'retry'));
  });
  const drop = addChoice(dead.command('drop'), 'remove the tasks for ever').option(
    '-y, --yes',
    'do not ask for confirmation',
  );
  drop.addHelpText('after', notesOf(dropNotes)).action((names: readonly string[], flags: DropFlags) => {
    assertChosen(names, flags);
    assertCanAsk(runner.shell, flags.yes ?? false, 'drops the tasks');
    return runner.connected((session) => dropDead(session, names, flags));
  });
}

function addChoice(command: Command, summary: string, defaultLimit?: number): Command {
  const limit = new Option('-n, --limit <n>', 'largest number of tasks of a queue');
  limit.argParser(wholeNumber(1, Number.MAX_SAFE_INTEGER)).default(defaultLimit);
  command
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .argument('[queue...]', 'dead-letter queues, group#name or a name in the default group')
    .option(
      '--error <regex>',
      'only tasks whose latest error, or one of its causes, matches this JavaScript expression',
      expression,
    )
    .addOption(limit);
  return command
    .option('--regex <re2>', String.raw`queues by group#name; may match any part (default: \.dead$)`)
    .option('--group <group>', "queues of this group; '' is the default group");
}

function expression(text: string): RegExp {
  try {
    return new RegExp(text, 'u');
  } catch (error) {
    throw new InvalidArgumentError(`${error instanceof Error ? error.message : String(error)}.`);
  }
}

/** @throws UsageError unless names or a filter say which queues: a change of all dead letters must be asked for. */
function assertChosen(names: readonly string[], flags: FilterFlags): void {
  assertNamesOrFilter(names, flags);
  if (names.length === 0 && filterOf(flags) === undefined) {
    throw new UsageError(`name the queues or give filters; --regex '${BY_DEFAULT}' stands for all that end with .dead`);
  }
}

/** Names of the chosen queues, in order. */
async function* chosenQueues(
  { client, signal }: Session,
  names: readonly string[],
  flags: FilterFlags,
  missing: MissingNodes,
): AsyncGenerator<string> {
  if (names.length > 0) {
    yield* names.map(queueName);
    return;
  }
  const { group, regex = BY_DEFAULT } = flags;
  const listing = client.listQueues({ filter: { group, regex }, signal, onUnreachable: missing.note });
  for await (const { queue } of listing) yield queue;
}

const choiceOf = ({ error, limit }: DeadFlags) => ({
  where:
    error === undefined
      ? undefined
      : (task: TaskSummary) => messagesOfLatestError(task).some((text) => error.test(text)),
  limit,
});

async function listDead(session: Session, names: readonly string[], flags: DeadFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  let tasks: TaskSummary[] = [];
  const missing = new MissingNodes();
  let listed = 0;
  let printed = 0;
  const print = async (): Promise<void> => {
    const columns = deadColumns(out, Date.now());
    await out.block(tableOf(tasks, columns, out.stream, { header: printed === 0 }));
    printed += tasks.length;
    tasks = [];
  };
  for await (const name of chosenQueues(session, names, flags, missing)) {
    for await (const task of client.deadLetters(name).list({ ...choiceOf(flags), signal })) {
      listed++;
      if (out.json) await out.object(taskObject(task));
      else tasks.push(task);
      if (tasks.length === TABLE_ROWS) await print();
    }
  }
  if (tasks.length > 0) await print();
  if (listed === 0 && !out.json && missing.isEmpty) err.line('no dead letters');
  return missing.report(session, 'dead letters', listed === 0 ? exitCodes.nothing : exitCodes.ok);
}

async function dropDead(session: Session, names: readonly string[], flags: DropFlags): Promise<ExitCode> {
  const which = names.length > 0 ? names.join(', ') : 'all queues that match';
  const matching = flags.error === undefined ? 'all tasks' : `the tasks with errors like ${flags.error.source}`;
  if (!flags.yes && !(await isConfirmed(session, `Drop ${matching} of ${which}?`))) {
    session.err.line('Nothing was dropped.');
    return exitCodes.failed;
  }
  return settleDead(session, names, flags, 'drop');
}

async function settleDead(
  session: Session,
  names: readonly string[],
  flags: DeadFlags,
  how: 'retry' | 'drop',
): Promise<ExitCode> {
  const { client, err, signal } = session;
  const missing = new MissingNodes();
  let matched = 0;
  for await (const name of chosenQueues(session, names, flags, missing)) {
    let outcome: DeadLettersOutcome = { settled: 0, skipped: 0 };
    const onProgress = (sofar: DeadLettersOutcome): void => {
      outcome = sofar;
    };
    try {
      using _progress = new Progress({
        stream: err.stream,
        line: () => `${name}: ${count(outcome.settled)} tasks`,
      });
      await client.deadLetters(name)[how]({ ...choiceOf(flags), signal, onProgress });
    } finally {
      // After an error, too: some tasks have been changed by then.
      await report(session, name, how, outcome);
    }
    matched += outcome.settled + outcome.skipped;
  }
  return missing.report(session, 'dead letters', matched === 0 ? exitCodes.nothing : exitCodes.ok);
}

async function report(
  { out }: Session,
  name: string,
  how: 'retry' | 'drop',
  outcome: DeadLettersOutcome,
): Promise<void> {
  const { settled, skipped } = outcome;
  if (out.json) {
    await out.object({ queue: name, ...(how === 'retry' ? { requeued: settled } : { dropped: settled }), skipped });
    return;
  }
  const left = skipped === 0 ? '' : `, ${countOf(skipped, 'task')} left`;
  const done = how === 'retry' ? 'put back' : 'dropped';
  await out.line(`${name}: ${countOf(settled, 'task')} ${done}${left}`);
}
