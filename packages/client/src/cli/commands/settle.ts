import { limits, pidText } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { TaskMasterClient } from '../../api/client.ts';
import type { NewTask } from '../../tasks/new-task.ts';
import type { UpdateOutcome } from '../../tasks/update.ts';
import { bytesCodec } from '../../values/codec.ts';
import { leaseToken, lengthOfTime, payload, queueName } from '../input/arguments.ts';
import { type Settling, settleTasks } from '../input/settle-tasks.ts';
import { assertRefSource, type RefSource, type TaskRef } from '../input/task-refs.ts';
import { UsageError } from '../output/cli-errors.ts';
import type { ExitCode } from '../output/exit-codes.ts';
import { duration } from '../output/format.ts';
import { notesOf } from '../output/help.ts';
import type { Runner, Session } from '../session.ts';

interface NewTaskFlag {
  readonly queue: string;
  readonly data: Buffer;
}

interface SettleFlags {
  readonly token?: number;
  readonly task?: string;
  readonly atomic?: true;
}

interface CompleteFlags extends SettleFlags {
  readonly enqueue: readonly NewTaskFlag[];
  readonly move?: string;
}

interface RenewFlags extends SettleFlags {
  readonly for: number;
}

interface ReleaseFlags extends SettleFlags {
  readonly delay?: number;
  readonly refund?: true;
}

const taskNotes = `
--task reads the lines that \`taskmaster lease --json\` printed, from a file or from stdin (-). Each task is a change of its
own, and those that are refused do not stop the others; with --atomic all of them are one change.`;

const completeNotes = `${taskNotes}

With --token the task is removed only while that lease is current, or when nobody has leased the task since; without,
whoever has it. What --enqueue and --move add comes into being with the completion, or not at all; its queue must be of
the same group.

Examples:
  $ taskmaster complete shop#mail order-17 --token 3
  $ taskmaster complete shop#mail order-17 --token 3 --enqueue shop#invoice='{"order":17}'
  $ taskmaster lease shop#mail --max 10 --json > tasks.jsonl && send-all < tasks.jsonl \\
      && taskmaster complete --task tasks.jsonl
  $ taskmaster lease shop#mail.dead --max 1000 --json | taskmaster complete --task - --move shop#mail`;

const renewNotes = `${taskNotes}

Examples:
  $ taskmaster renew shop#mail order-17 --token 3 --for 5m`;

const releaseNotes = `${taskNotes}

Without --delay the task is hidden as its retry policy says; without a policy, or with --refund, it is available at once.

Examples:
  $ taskmaster release shop#mail order-17 --token 3
  $ taskmaster lease shop#mail --max 100 --json | taskmaster release --task - --refund`;

export function addSettling(program: Command, runner: Runner): void {
  const complete = program
    .command('complete')
    .summary('remove tasks that are done, and add what comes next')
    .description('Removes tasks because they are done, and adds what comes next, atomically.');
  addTaskChoice(complete);
  complete
    .addOption(
      new Option('--enqueue <queue=data>', 'add a task with the completion; may be given several times')
        .argParser(collectNewTasks)
        .default([], 'none'),
    )
    .option('--move <queue>', 'add the task itself to that queue, PID and data as they are', queueName)
    .addHelpText('after', notesOf(completeNotes))
    .action(
      action<CompleteFlags>(runner, (session, flags) => ({
        done: 'completed',
        add: (update, ref) => {
          update.complete(ref);
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
    .summary('make leases last longer')
    .description('Makes leases last so long from now. A lease that has ended is refused.');
  addTaskChoice(renew);
  renew
    .addOption(
      new Option('--for <duration>', 'how long from now').argParser(lengthOfTime).default(limits.defaultLeaseMs, '30s'),
    )
    .addHelpText('after', notesOf(renewNotes))
    .action(
      action<RenewFlags>(runner, (_session, flags) => {
        if (flags.for < 1) throw new UsageError('--for: a lease lasts at least 1ms');
        return {
          done: 'renewed',
          add: (update, ref) => update.renew(ref, flags.for),
          describe: ({ renewed: [until] }) => ({ leaseUntil: until?.toISOString() }),
          note: () => `for ${duration(flags.for)}`,
        };
      }),
    );
  const release = program
    .command('release')
    .summary('give leased tasks back before their leases end')
    .description('Gives leased tasks back before their leases end, to be leased by others.');
  addTaskChoice(release);
  release
    .option('--delay <duration>', 'keep the tasks hidden for so long', lengthOfTime)
    .option('--refund', 'the attempt does not count: nobody worked on the task')
    .addHelpText('after', notesOf(releaseNotes))
    .action(
      action<ReleaseFlags>(runner, (_session, flags) => ({
        done: 'released',
        add: (update, ref) => update.release(ref, { delay: flags.delay, refundAttempt: flags.refund }),
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
    .option('-t, --token <n>', 'the token of the lease, as `taskmaster lease` shows it', leaseToken)
    .option('--task <file>', 'read the tasks from a file, or from stdin (-), as `lease --json` prints them')
    .option('--atomic', 'all tasks in one change, or none; they must be of one group');
}

/** An action of commander: checks how the tasks are named, then settles them. */
function action<Flags extends SettleFlags>(runner: Runner, make: (session: Session, flags: Flags) => Settling) {
  return (queue: string | undefined, pids: readonly string[], flags: Flags): Promise<void> => {
    const source: RefSource = { queue, pids, token: flags.token, file: flags.task };
    assertRefSource(source);
    const isAtomic = flags.atomic ?? false;
    return runner.connected(
      (session): Promise<ExitCode> => settleTasks(session, source, make(session, flags), isAtomic),
      queue === undefined ? [] : [queue],
    );
  };
}

function nextTasks(client: TaskMasterClient, ref: TaskRef, { enqueue, move }: CompleteFlags): NewTask[] {
  const next = enqueue.map(({ queue, data }) => client.queue(queue, { codec: bytesCodec }).task(data));
  if (move === undefined) return next;
  if (ref.data === undefined) {
    throw new UsageError('--move needs the data of the task: use --task with what `lease --json` printed');
  }
  return [...next, client.queue(move, { codec: bytesCodec }).task(ref.data, { pid: ref.pid })];
}

function collectNewTasks(text: string, before: readonly NewTaskFlag[]): readonly NewTaskFlag[] {
  const at = text.indexOf('=');
  if (at < 0) throw new InvalidArgumentError(`'${text}' is not QUEUE=DATA.`);
  const data = payload(text.slice(at + 1));
  if (data.byteLength > limits.dataBytes)
    throw new InvalidArgumentError(`The data has more than ${limits.dataBytes} bytes.`);
  return [...before, { queue: queueName(text.slice(0, at)), data }];
}

function releaseNote(outcome: UpdateOutcome['released'][number] | undefined): string | undefined {
  if (outcome?.deadLetterQueue !== undefined) return `to ${outcome.deadLetterQueue}: its attempts are used up`;
  if (outcome?.hiddenUntil === undefined) return undefined;
  return `hidden until ${outcome.hiddenUntil.toISOString()}`;
}
