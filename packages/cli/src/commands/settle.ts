import {
  bytesCodec,
  type NewTask,
  type ResultOptions,
  type TaskMasterClient,
  type UpdateOutcome,
} from '@taskmaster/client';
import { limits, pidText } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  leaseDurationOption,
  leaseToken,
  lengthOfTime,
  payload,
  pid,
  queueName,
  queueToFill,
  someTime,
  wholeNumber,
} from '../input/arguments.ts';
import { runAtOption } from '../input/task-flags.ts';
import { assertRefSource, type RefSource, type TaskRef } from '../input/task-refs.ts';
import type { Runner, Session } from '../session/session.ts';
import { UsageError } from '../views/cli-errors.ts';
import type { ExitCode } from '../views/exit-codes.ts';
import { duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { type Settling, settleTasks } from './settle-tasks.ts';

interface NewTaskFlag {
  readonly queue: string;
  readonly data: Buffer;
}

interface SettleFlags {
  readonly leaseToken?: number;
  readonly force?: true;
  readonly task?: string;
  readonly atomic?: true;
}

interface CompleteFlags extends SettleFlags {
  readonly enqueue: readonly NewTaskFlag[];
  readonly move?: string;
  readonly result?: Buffer;
  readonly resultRetention?: number;
}

interface RenewFlags extends SettleFlags {
  readonly leaseDuration?: number;
  readonly progress?: string;
  readonly checkpoint?: Buffer;
  readonly begun?: number;
}

interface ReleaseFlags extends SettleFlags {
  readonly delay?: number;
  readonly runAt?: Date;
  readonly refundAttempt?: true;
  readonly interrupted?: true;
  readonly error?: string;
  readonly deadLetter?: true;
}

const taskNotes = `
The lease token proves that you have the task: \`taskmaster lease\` shows it. Without a token the command needs --force, and
then it also changes a task that another worker has leased.

--task reads the lines that \`taskmaster lease --json\` prints, lease tokens included, from a file or from stdin (-). Each task
is an update of its own, and a refused task does not stop the others. With --atomic all tasks are one update.`;

const completeNotes = `${taskNotes}

With --lease-token the task is removed only while that lease is current, or if no worker has leased the task since. With
--force it is always removed. Tasks of --enqueue and --move are added together with the completion, or not at all. Their
queues must be of the same group.

Examples:
  $ taskmaster complete shop#mail order-17 --lease-token 3
  $ taskmaster complete shop#mail order-17 --lease-token 3 --enqueue shop#invoice='{"order":17}'
  $ taskmaster lease shop#mail --max 10 --json > tasks.jsonl && send-all < tasks.jsonl \\
      && taskmaster complete --task tasks.jsonl
  $ taskmaster lease shop#mail.dead --max 1000 --json | taskmaster complete --task - --move shop#mail
  $ taskmaster complete shop#mail order-17 --lease-token 3 --result '{"sent":true}' --result-retention 1d
  $ taskmaster complete shop#mail order-17 --force`;

const renewNotes = `${taskNotes}

--begun N says that the work on the tasks has begun, with N tasks together, each of them included. Only \`lease --starts\` makes it
necessary.

Examples:
  $ taskmaster renew shop#mail order-17 --lease-token 3 --lease-duration 5m
  $ taskmaster renew shop#mail order-17 --lease-token 3 --progress 'page 3 of 7' --checkpoint '{"page":3}'`;

const releaseNotes = `${taskNotes}

Without --delay the retry policy of the task says how long it is hidden. A task without a policy, or with --refund-attempt, is
available at once.

Examples:
  $ taskmaster release shop#mail order-17 --lease-token 3
  $ taskmaster lease shop#mail --max 100 --json | taskmaster release --task - --refund-attempt
  $ taskmaster release shop#mail order-17 --lease-token 3 --dead-letter --error 'no such address'`;

export function addSettling(program: Command, runner: Runner): void {
  const complete = program
    .command('complete')
    .summary('remove tasks that are done, and add follow-up tasks')
    .description('Removes tasks that are done, and adds follow-up tasks, atomically.');
  addTaskChoice(complete);
  complete
    .addOption(
      new Option('--enqueue <queue=data>', 'add a task with the completion; can be given several times')
        .argParser(collectNewTasks)
        .default([], 'none'),
    )
    .option('--move <queue>', 'add the task to this queue, with the same PID and data', queueToFill)
    .option('--result <data>', 'what the task leaves for `taskmaster wait`', payload)
    .option('--result-retention <duration>', 'how long the result is kept (default: 1h)', someTime)
    .addHelpText('after', notesOf(completeNotes))
    .action(
      action<CompleteFlags>(runner, (session, flags) => ({
        done: 'completed',
        add: (update, ref) => {
          update.complete(ref, resultOf(flags));
          for (const task of nextTasks(session.client, ref, flags)) update.enqueue(task);
        },
        describe: ({ enqueued }) => ({
          enqueued:
            enqueued.length === 0
              ? undefined
              : enqueued.map(({ pid, result, leased }) => ({ pid: pidText(pid), result, leased })),
        }),
      })),
    );
  const renew = program
    .command('renew')
    .summary('extend leases')
    .description('Extends leases, counted from now. A lease that has ended is refused.');
  addTaskChoice(renew);
  renew
    .addOption(leaseDurationOption('how long the leases last from now'))
    .option('--progress <text>', 'how far the work is; peek and get show it')
    .option('--checkpoint <data>', 'bytes with which the next attempt continues', payload)
    .option(
      '--begun <n>',
      'the work has begun, with n tasks together (default: it does not say)',
      wholeNumber(1, limits.leaseTasks),
    )
    .addHelpText('after', notesOf(renewNotes))
    .action(
      action<RenewFlags>(runner, (_session, flags) => ({
        done: 'renewed',
        add: (update, ref) => {
          const { leaseDuration, progress, checkpoint, begun } = flags;
          update.renew(ref, leaseDuration, { progress, checkpoint, begun });
        },
        describe: ({ renewed: [until] }) => ({ leaseUntil: until?.toISOString() }),
        note: () => (flags.leaseDuration === undefined ? '' : `for ${duration(flags.leaseDuration)}`),
      })),
    );
  const release = program
    .command('release')
    .summary('release tasks before their leases end')
    .description('Releases tasks before their leases end, so that other workers can lease them.');
  addTaskChoice(release);
  release
    .option('--delay <duration>', 'hide the tasks for this time', lengthOfTime)
    .addOption(runAtOption('hide the tasks until this time'))
    .addOption(
      new Option('--refund-attempt', 'do not count the attempt: the work did not begin').conflicts([
        'error',
        'deadLetter',
      ]),
    )
    .addOption(
      new Option('--interrupted', 'do not count the attempt: the worker stops. The task counts this').conflicts([
        'error',
        'deadLetter',
      ]),
    )
    .option('--error <text>', 'why the attempt failed; the task keeps it')
    .addOption(
      new Option('--dead-letter', 'send the tasks to their dead-letter queues, whatever their policies say').conflicts([
        'delay',
        'runAt',
      ]),
    )
    .addHelpText('after', notesOf(releaseNotes))
    .action(
      action<ReleaseFlags>(runner, (_session, flags) => ({
        done: 'released',
        add: (update, ref) => {
          const { delay, runAt, refundAttempt, interrupted, error, deadLetter } = flags;
          update.release(ref, { delay, runAt, refundAttempt, interrupted, error, deadLetter });
        },
        describe: ({ released: [outcome] }) => ({
          hiddenUntil: outcome?.hiddenUntil?.toISOString(),
          deadLetterQueue: outcome?.deadLetterQueue,
        }),
        note: ({ released: [outcome] }) => releaseNote(outcome),
      })),
    );
}

function addTaskChoice(command: Command): void {
  command
    .argument('[queue]', 'group#name, or a name in the default group', queueName)
    .argument('[pid...]', 'PIDs of the tasks')
    .option('-t, --lease-token <n>', 'the lease token of the task, as `taskmaster lease` shows it', leaseToken)
    .option('--force', 'without a lease token: also if another worker has leased the task')
    .option('--task <file>', 'read the tasks from a file or from stdin (-), as `lease --json` prints them')
    .option('--atomic', 'all tasks in one update: all or none; they must be of one group');
}

/** The action of a command: checks how the tasks are named, then settles them. */
function action<Flags extends SettleFlags>(runner: Runner, make: (session: Session, flags: Flags) => Settling) {
  return (queue: string | undefined, pids: readonly string[], flags: Flags): Promise<void> => {
    const source: RefSource = {
      queue,
      names: pids.map(pid),
      leaseToken: flags.leaseToken,
      force: flags.force ?? false,
      file: flags.task,
    };
    assertRefSource(source);
    const isAtomic = flags.atomic ?? false;
    return runner.connected(
      (session): Promise<ExitCode> => settleTasks(session, source, make(session, flags), isAtomic),
      queue === undefined ? [] : [queue],
    );
  };
}

function resultOf({ result, resultRetention }: CompleteFlags): ResultOptions {
  if (result !== undefined) return { result, resultRetention, resultCodec: bytesCodec };
  if (resultRetention !== undefined) throw new UsageError('--result-retention goes with --result');
  return {};
}

function nextTasks(client: TaskMasterClient, ref: TaskRef, { enqueue, move }: CompleteFlags): NewTask[] {
  const next = enqueue.map(({ queue, data }) => client.queue(queue, { codec: bytesCodec }).task(data));
  if (move === undefined) return next;
  if (ref.data === undefined) {
    throw new UsageError('--move needs the data of the task: use --task with the output of `lease --json`');
  }
  return [...next, client.queue(move, { codec: bytesCodec }).task(ref.data, { pid: ref.pid, headers: ref.headers })];
}

function collectNewTasks(text: string, before: readonly NewTaskFlag[]): readonly NewTaskFlag[] {
  const at = text.indexOf('=');
  if (at < 0) throw new InvalidArgumentError(`'${text}' is not QUEUE=DATA.`);
  const data = payload(text.slice(at + 1));
  if (data.byteLength > limits.dataBytes)
    throw new InvalidArgumentError(`The data has more than ${limits.dataBytes} bytes.`);
  return [...before, { queue: queueToFill(text.slice(0, at)), data }];
}

function releaseNote(outcome: UpdateOutcome['released'][number] | undefined): string | undefined {
  if (outcome?.deadLetterQueue !== undefined) return `to ${outcome.deadLetterQueue} after its last attempt`;
  if (outcome?.hiddenUntil === undefined) return undefined;
  return `hidden until ${outcome.hiddenUntil.toISOString()}`;
}
