import { bytesCodec, DeadlineExceededError, type Pid, pidText, type TaskEnd } from '@taskmaster/client';
import type { Command } from 'commander';
import { lengthOfTime, pid, queueName } from '../input/arguments.ts';
import type { Runner, Session } from '../session/session.ts';
import { textOf } from '../views/bytes-text.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';

const notes = `
It does not matter whether the task is leased, or completed already, as long as its result is kept. The command exits with 0 if the
task was completed, with 1 if it went to its dead-letter queue, was cancelled or removed, and with 4 if it is not in the queue and has
left no result, or has not ended in time.

Examples:
  $ taskmaster wait shop#mail order-17
  $ taskmaster wait shop#report 2030-01 --for 10m --raw > report.json`;

interface WaitFlags {
  readonly for?: number;
  readonly raw?: true;
}

export function addWait(program: Command, runner: Runner): void {
  program
    .command('wait')
    .summary('wait until a task has ended, and show its result')
    .description('Waits until a task is completed, or ends in another way, and shows its result.')
    .argument('<queue>', 'group#name, or a name in the default group', queueName)
    .argument('<pid>', 'PID of the task', pid)
    .option('--for <duration>', 'how long to wait (default: until the task has ended)', lengthOfTime)
    .option('--raw', 'write only the result, byte for byte')
    .addHelpText('after', notesOf(notes))
    .action((queue: string, given: Pid, flags: WaitFlags) =>
      runner.connected((session) => wait(session, queue, given, flags), [queue]),
    );
}

async function wait(session: Session, name: string, task: Pid, flags: WaitFlags): Promise<ExitCode> {
  const { client, signal, out, err } = session;
  const queue = client.queue(name);
  const end = await untilOver(queue.waitForEnd(task, { codec: bytesCodec, timeout: flags.for, signal }), flags.for);
  if (end === undefined) {
    if (!out.json) err.line(`${queue.name}: ${pidText(task)} has not ended within ${duration(flags.for ?? 0)}`);
    return exitCodes.nothing;
  }
  if (flags.raw) await out.write(end.result ?? '');
  else if (out.json) await out.object(endObject(queue.name, pidText(task), end));
  else await out.line(endLine(queue.name, pidText(task), end));
  return endCode(end);
}

/** What is awaited. Undefined if its time is over. `timeout`: of the wait. */
export async function untilOver<T>(awaited: Promise<T>, timeout: number | undefined): Promise<T | undefined> {
  try {
    return await awaited;
  } catch (error) {
    // Other errors of this class say that no node answered.
    const isOver = error instanceof DeadlineExceededError && error.gaveUpAfterMs === undefined;
    if (!isOver || timeout === undefined) throw error;
    return undefined;
  }
}

/** The exit code for the end of a task. */
export function endCode({ outcome }: TaskEnd): ExitCode {
  if (outcome === 'completed') return exitCodes.ok;
  return outcome === 'unknown' ? exitCodes.nothing : exitCodes.failed;
}

/** The end of a task for programs. */
export function endObject(
  queue: string,
  pid: string,
  { outcome, result, endedAt, attempts, error, cancelReason }: TaskEnd<Uint8Array>,
): object {
  return {
    queue,
    pid,
    outcome,
    result: result && textOf(result),
    endedAt: endedAt?.toISOString(),
    attempts,
    error,
    cancelReason,
  };
}

/** The end of a task for people. */
export function endLine(
  queue: string,
  task: string,
  { outcome, result, error, cancelReason }: TaskEnd<Uint8Array>,
): string {
  const rest = result === undefined ? (error ?? cancelReason ?? '') : textOf(result);
  return `${outcome}  ${queue}  ${task}${rest === '' ? '' : `  ${rest}`}`;
}
