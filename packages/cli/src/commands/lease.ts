import { hostname } from 'node:os';
import {
  bytesCodec,
  isTaskMasterError,
  type LeasedTask,
  type LeaseOptions,
  type Pid,
  pidText,
  type Queue,
  type SeveralQueues,
  type TaskMasterError,
} from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import type { Command } from 'commander';
import { collected, leaseDurationOption, lengthOfTime, pid, queueName, wholeNumber } from '../input/arguments.ts';
import { shardCount, shardsOf } from '../input/shard-flags.ts';
import type { Runner, Session } from '../session/session.ts';
import { unreachableHolders, unreachableText } from '../session/unreachable-holder.ts';
import { UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { countOf } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import { MissingNodes, reportIncomplete } from '../views/missing-nodes.ts';
import { isTemporary } from '../views/report-error.ts';
import { tableOf } from '../views/table.ts';
import { leasedColumns, leasedObject } from '../views/task-view.ts';
import { ExecLoop } from './exec-loop.ts';

interface LeaseFlags {
  readonly max?: number;
  readonly leaseDuration?: number;
  readonly wait?: number;
  readonly maxPid?: Pid;
  readonly kind?: readonly string[];
  readonly workerLabel?: string;
  readonly starts?: number;
  readonly together?: number;
  readonly raw?: true;
  readonly exec?: string;
  readonly concurrency?: number;
  readonly follow?: true;
  readonly retryAfter?: number;
  readonly shards?: number;
  readonly regex?: string;
  readonly group?: string;
}

interface LeasedQueues {
  readonly refs: readonly (Queue<Uint8Array> | SeveralQueues<Uint8Array>)[];
  /** Names of the queues, or of their shards, for messages about their holders. */
  readonly names: readonly string[];
}

const notes = `
Tasks come from the first queue, then from the second, and so on, lowest PID first. No other worker gets them until their
leases end. Complete, renew or release them with the lease tokens in the output. The command exits with 4 if there is no task.
Tasks of a sharded queue come nearly in the order of their PIDs, each with the name of its shard. With --regex or --group tasks come
from all these queues in turn, so that a queue with many tasks keeps no other waiting. With --kind there are only tasks of kinds that
match one of the patterns; --kind '' stands for tasks without a kind.

With --starts N only the first N tasks count as begun, for a program that works on the others later. Run \`renew --begun\` when the
work on one of the others begins. If the program dies, the attempts at tasks that have not begun do not count. The output marks these
tasks as unbegun. A number means that the last worker of the task died: begin it together with at most that number of tasks.

--raw writes only the payloads, byte for byte, with a newline after each payload if --max is more than 1. For each task stderr
gets a line for complete --task.

--exec runs a shell command for each task, with the payload on its stdin. The environment has TASKMASTER_QUEUE,
TASKMASTER_PRIORITY_ID (the PID of the task), TASKMASTER_KIND, TASKMASTER_LEASE_TOKEN, TASKMASTER_ATTEMPT and TASKMASTER_HEADERS (a
JSON object). The lease is renewed while the command runs. Exit
code 0 completes the task, any other exit code releases it. If the lease is lost, the task is cancelled or its time limit is reached, the
command is ended. taskmaster itself exits with 1 if a command failed.

Examples:
  $ taskmaster lease shop#mail --lease-duration 5m --wait 30s
  $ taskmaster lease shop#urgent shop#mail --max 10 --json > tasks.jsonl
  $ taskmaster lease crawl --shards 32 --max 100
  $ taskmaster lease --regex '^tenant-.*#jobs$' --exec './work.sh' --follow
  $ taskmaster lease shop#mail --raw > mail.json 2> task.jsonl && send mail.json && taskmaster complete --task task.jsonl
  $ taskmaster lease images --kind 'resize@*' --kind thumb --exec './work.sh'
  $ taskmaster lease shop#mail --max 100 --starts 1 --json > tasks.jsonl
  $ taskmaster lease shop#mail --exec './send.sh' --follow --concurrency 4 --retry-after 1m`;

/** Wait of one long poll of --follow, in ms: long enough for few requests, short enough for load balancers on the way. */
const FOLLOW_WAIT_MS = 30_000;
/** Timeout of further requests when some tasks are leased already, in ms. Nodes wait two seconds for each other. */
const MORE_TIMEOUT_MS = 3_000;

export function addLease(program: Command, runner: Runner): void {
  program
    .command('lease')
    .summary('lease tasks, and show them or run a command for each')
    .description('Leases the first tasks of queues, and shows them or runs a command for each.')
    .argument('[queue...]', 'group#name, or a name in the default group; tasks of the first one first')
    .option('-n, --max <n>', 'largest number of tasks (default: 1)', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .addOption(leaseDurationOption('how long the leases last'))
    .option('--wait <duration>', 'how long to wait if there is no task (default: not at all)', lengthOfTime)
    .option('--max-pid <pid>', 'only tasks with a PID up to this one, inclusive', pid)
    .option('--kind <pattern>', 'only tasks of this kind, such as resize@*; may be given many times', collected)
    .option('--worker-label <label>', 'label of this worker, shown by peek (default: taskmaster@host:process)')
    .option(
      '--starts <n>',
      'only the first n tasks begin at once (default: all); `renew --begun` tells of others',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option(
      '--together <n>',
      'with --starts: how many tasks the program works on together (default: 1)',
      wholeNumber(1, limits.leaseTasks),
    )
    .option('--raw', 'write only the payloads, byte for byte')
    .option('--exec <command>', 'run a shell command for each task; exit code 0 completes the task, others release it')
    .option('--concurrency <n>', 'with --exec: commands at the same time (default: 1)', wholeNumber(1, 1_000))
    .option('--follow', 'with --exec: wait for more tasks until Ctrl-C')
    .option(
      '--retry-after <duration>',
      'with --exec: delay of a failed task (default: as its retry policy says)',
      lengthOfTime,
    )
    .option('--shards <n>', 'the queues are sharded: number of their shards', shardCount)
    .option('--regex <re2>', 'instead of names: queues by group#name, in fair turns, also those that come later')
    .option('--group <group>', "instead of names: queues of this group, likewise; '' is the default group")
    .addHelpText('after', notesOf(notes))
    .action((names: readonly string[], flags: LeaseFlags) => {
      const queues = names.map(queueName);
      assertConsistent(queues, flags);
      const run = flags.exec === undefined ? showTasks : runCommands;
      const held = flags.shards === undefined ? queues : queues.flatMap((name) => shardsOf(name, flags.shards ?? 0));
      return runner.connected(
        (session) => run(session, { names: held, refs: refsOf(session, queues, flags) }, flags),
        held,
      );
    });
}

async function showTasks(session: Session, queues: LeasedQueues, flags: LeaseFlags): Promise<ExitCode> {
  const { out, err } = session;
  const max = flags.max ?? 1;
  let leased = 0;
  for (;;) {
    let tasks: LeasedTask<Uint8Array>[];
    try {
      // The size of a reply is limited, so it may have fewer tasks than there are.
      tasks = await leaseOnce(session, queues, flags, Math.min(max - leased, limits.leaseTasks), leased);
    } catch (error) {
      // Keep the tasks that are leased: their leases are running.
      if (leased === 0 || session.signal.aborted || !isTaskMasterError(error) || !isTemporary(error)) throw error;
      await reportMissed(session, error, queues.names);
      break;
    }
    if (tasks.length === 0) break;
    await print(session, tasks, flags, leased === 0);
    leased += tasks.length;
    if (leased >= max || out.closed.aborted) break;
  }
  if (leased > 0) return exitCodes.ok;
  const missing = await missingOf(session, flags);
  if (!out.json && missing.isEmpty) {
    err.line(`${queues.refs.map(({ name }) => name).join(', ')}: no task to lease`);
  }
  return missing.report(session, 'tasks', exitCodes.nothing);
}

/** Says that some of the queues could not be asked. */
async function reportMissed(
  { client, out, err }: Session,
  error: TaskMasterError,
  queues: readonly string[],
): Promise<void> {
  const holders = await unreachableHolders(client, error, queues);
  const why = holders.length > 0 ? unreachableText(holders) : `${error.reason}: ${error.message}`;
  reportIncomplete({ out, err }, `some queues could not be asked for tasks: ${why}`);
}

async function print(
  { out, err }: Session,
  tasks: readonly LeasedTask<Uint8Array>[],
  { raw, max = 1 }: LeaseFlags,
  isFirst: boolean,
): Promise<void> {
  if (raw) {
    for (const task of tasks) {
      await out.write(task.bytes);
      if (max > 1) await out.line();
      const { queue, pid: leasedPid, leaseToken, unbegun } = task;
      err.object({ queue, pid: pidText(leasedPid), leaseToken, unbegun });
    }
  } else if (out.json) {
    for (const task of tasks) await out.object(leasedObject(task));
  } else {
    await out.block(tableOf(tasks, leasedColumns(tasks, out, Date.now()), out.stream, { header: isFirst }));
  }
}

async function runCommands(session: Session, queues: LeasedQueues, flags: LeaseFlags): Promise<ExitCode> {
  const { out, err, signal } = session;
  const loop = new ExecLoop(session, {
    command: flags.exec ?? '',
    retryAfterMs: flags.retryAfter,
    lease: async () => (await leaseOnce(session, queues, flags, 1, 0))[0],
    maxTasks: flags.follow ? Number.POSITIVE_INFINITY : (flags.max ?? 1),
    endless: flags.follow ?? false,
  });
  await loop.run(flags.concurrency ?? 1);
  const { completed, failed } = loop.counts;
  if (!out.json) err.line(`${countOf(completed, 'task')} completed, ${countOf(failed, 'task')} failed`);
  signal.throwIfAborted();
  if (failed > 0) return exitCodes.failed;
  if (completed > 0) return exitCodes.ok;
  return (await missingOf(session, flags)).report(session, 'tasks', exitCodes.nothing);
}

/** Nodes that may hold matching queues, and do not answer. A lease from queues by name is refused if one of them is missing. */
async function missingOf({ client, signal }: Session, { regex, group }: LeaseFlags): Promise<MissingNodes> {
  const missing = new MissingNodes();
  if (regex === undefined && group === undefined) return missing;
  const listing = client.listQueues({ filter: { regex, group }, pageSize: 1, signal, onUnreachable: missing.note });
  for await (const _ of listing) break;
  return missing;
}

function refsOf({ client }: Session, names: readonly string[], flags: LeaseFlags): LeasedQueues['refs'] {
  const { shards, regex, group } = flags;
  if (names.length === 0) return [client.matchingQueues({ regex, group }, { codec: bytesCodec })];
  return names.map((name) =>
    shards === undefined
      ? client.queue(name, { codec: bytesCodec })
      : client.shardedQueue(name, { shards, codec: bytesCodec }),
  );
}

function leaseOnce(
  { client, signal, timeoutMs }: Session,
  { refs }: LeasedQueues,
  flags: LeaseFlags,
  max: number,
  leased: number,
): Promise<LeasedTask<Uint8Array>[]> {
  const isFirst = leased === 0;
  const { starts, together } = flags;
  const wait = flags.wait ?? (flags.follow ? FOLLOW_WAIT_MS : 0);
  const options: LeaseOptions = {
    max,
    leaseDuration: flags.leaseDuration,
    wait: isFirst ? wait : 0,
    maxPid: flags.maxPid,
    kinds: flags.kind,
    starts:
      starts === undefined ? undefined : { now: Math.min(limits.leaseTasks, Math.max(0, starts - leased)), together },
    workerLabel: flags.workerLabel ?? `taskmaster@${hostname()}:${process.pid}`,
    signal,
    timeout: isFirst ? timeoutMs : Math.min(timeoutMs, MORE_TIMEOUT_MS),
  };
  return client.lease({ queues: refs, ...options });
}

function assertConsistent(queues: readonly string[], flags: LeaseFlags): void {
  const isMatching = flags.regex !== undefined || flags.group !== undefined;
  if (queues.length > 0 === isMatching) throw new UsageError('name queues, or give --regex or --group');
  if (isMatching && flags.shards !== undefined) throw new UsageError('--shards goes with the names of queues');
  if (new Set(queues).size < queues.length) throw new UsageError('a queue is named twice');
  if (flags.raw && flags.exec !== undefined) throw new UsageError('give --raw or --exec, not both');
  if (flags.follow && flags.max !== undefined) throw new UsageError('give --follow or --max, not both');
  if (flags.together !== undefined && flags.starts === undefined) throw new UsageError('--together goes with --starts');
  if (flags.starts !== undefined && flags.exec !== undefined)
    throw new UsageError('give --starts or --exec, not both: --exec begins each task when it has leased it');
  if (flags.exec !== undefined) return;
  if (flags.concurrency !== undefined) throw new UsageError('--concurrency goes with --exec');
  if (flags.follow) throw new UsageError('--follow goes with --exec');
  if (flags.retryAfter !== undefined) throw new UsageError('--retry-after goes with --exec');
}
