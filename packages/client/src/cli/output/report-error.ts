import { CommanderError } from 'commander';
import {
  DeadlineExceededError,
  isTaskMasterError,
  type TaskMasterError,
  UnavailableError,
} from '../../values/errors.ts';
import { pidText } from '../../values/pid.ts';
import { escapeControls } from '../input/bytes-text.ts';
import { AlreadyReportedError, CommandFailedError, InterruptedError, UsageError } from './cli-errors.ts';
import { type ExitCode, exitCodes, signalExitCodes } from './exit-codes.ts';
import type { OutputStream } from './output.ts';

/** An error as it is shown: `{"error": ...}` with `--json`, else one line. */
export interface ErrorReport {
  /** Stable, for programs. */
  readonly reason: string;
  readonly message: string;
  /** What to do next. */
  readonly hint?: string | undefined;
  /** Of a change: what made it impossible. */
  readonly items?: readonly { kind: string; index: number; queue: string; pid: string; reason: string }[] | undefined;
  /** The request may have been carried out although no answer came. */
  readonly maybeApplied?: true | undefined;
}

/** The next step, by reason. */
const hints: Readonly<Record<string, string>> = {
  TASK_NOT_FOUND: 'it was completed, deleted or never enqueued; look with `taskmaster get`',
  TASK_EXISTS: 'use --mode collapse to keep the task that is there, or --mode replace to give it the new data',
  LEASE_LOST: 'another worker has, or had, the task since; drop the work and lease again',
  LEASE_EXPIRED: 'it can still be completed until somebody else leases it; renew earlier or lease for longer',
  NOT_LEASED: 'nobody has a lease on it; lease it first',
  MIXED_GROUPS: 'the queues of one change have the same text before #',
  DATA_TOO_LARGE: 'store the data elsewhere and enqueue where it is',
  REQUEST_TOO_LARGE: 'send fewer or smaller tasks at a time',
  INVALID_REGEX: 'regular expressions are RE2: no look-around, no back references',
  OVERLOADED: 'the node has too much to do; try again later or with fewer requests at once',
  TOO_MANY_WAITERS: 'too many workers wait for tasks on this node; try again later',
  DISK_FULL: 'make room on the disk of the node; all but enqueueing goes on meanwhile',
  NOT_HOLDER: 'another node serves this group; give --endpoint a proxy or that node',
  UNKNOWN_MEMBER: '`taskmaster members --all` shows who there is',
  MEMBER_LEFT: 'there is nothing left to do; `taskmaster members --all` shows it',
  MEMBER_ALIVE: 'if it is gone already, try again in a few seconds',
  LAST_MEMBER: 'add a node first',
  UNIMPLEMENTED: 'the node is of a version without this',
  STARTING: 'the node is starting; try again in a moment',
  SHUTTING_DOWN: 'the node is shutting down; try again in a moment or with another --endpoint',
  STORE_FAILED: 'the node cannot use its disk; see its log',
  OLD_DATA: 'the node was started with an older copy of its data; see its log',
  CORRUPT_DATA: 'the node found damaged data; see its log',
  INTERNAL: "a fault of the node's or of this program; see the node's log",
  DEADLINE_EXCEEDED: 'give it longer with --timeout',
};

const SILENT_HINT = '`taskmaster members` shows who does not answer';
const UNREACHABLE_HINT = 'is a node running there? --endpoint or TASKMASTER_ENDPOINTS say where to look';

/** Prints an error, unless it needs no words. Returns how the process ends because of it. */
export function reportError(
  thrown: unknown,
  stderr: OutputStream,
  { json, debug }: { readonly json: boolean; readonly debug: boolean },
): ExitCode {
  if (thrown instanceof InterruptedError) return signalExitCodes[thrown.signalName];
  if (thrown instanceof AlreadyReportedError) return exitCodes.failed;
  const report = errorReport(thrown);
  stderr.write(json ? `${JSON.stringify({ error: report })}\n` : `${errorLine(report)}\n`);
  if (debug && thrown instanceof Error) stderr.write(`${stackOf(thrown)}\n`);
  return exitCodeOf(thrown);
}

export function errorLine({ reason, message, hint, maybeApplied }: ErrorReport): string {
  const unknown = maybeApplied ? ' (it may have taken effect all the same)' : '';
  const line = `taskmaster: ${reason}: ${message}${unknown}${hint === undefined ? '' : `; ${hint}`}`;
  return escapeControls(line);
}

export function errorReport(thrown: unknown): ErrorReport {
  if (isTaskMasterError(thrown)) return clientErrorReport(thrown);
  if (thrown instanceof CommanderError) {
    // 'error: unknown command 'qeues'\n(Did you mean queues?)'
    const message = thrown.message
      .replace(/^error: /, '')
      .replace(/\n/g, ' ')
      .replace(/\.$/, '');
    return { reason: 'USAGE', message, hint: 'see --help' };
  }
  if (thrown instanceof UsageError) return { reason: 'USAGE', message: thrown.message };
  if (thrown instanceof CommandFailedError)
    return { reason: thrown.reason, message: thrown.message, hint: thrown.hint };
  const { code } = thrown as NodeJS.ErrnoException;
  if (thrown instanceof Error && typeof code === 'string') return { reason: code, message: thrown.message };
  return {
    reason: 'INTERNAL',
    message: thrown instanceof Error ? thrown.message : String(thrown),
    hint: 'this is a fault of this program; --debug shows more',
  };
}

function clientErrorReport(error: TaskMasterError): ErrorReport {
  const items = error.items.map((item) => ({ ...item, pid: pidText(item.pid) }));
  return {
    reason: error.reason,
    // When to try again is not for people: whoever reads this, the client has tried long enough.
    message: messageOf(error),
    hint: hintOf(error),
    items: items.length === 0 ? undefined : items,
    maybeApplied: error.maybeApplied ? true : undefined,
  };
}

function hintOf({ reason, metadata }: TaskMasterError): string | undefined {
  if (reason === 'UNAVAILABLE') return UNREACHABLE_HINT;
  // Where no node answers nobody could show that.
  if (reason === 'HOLDER_UNREACHABLE') return metadata.partition === undefined ? undefined : SILENT_HINT;
  return hints[reason];
}

/** The node's words, and which task they are of. */
function messageOf(error: TaskMasterError): string {
  const [first] = error.items;
  return first === undefined ? error.message : `${pidText(first.pid)} of ${first.queue}: ${error.message}`;
}

/** Whether a command that goes on for ever waits until it is over: the node is gone, or has too much to do. */
export function mayPass(error: TaskMasterError): boolean {
  return error.retryable || isOutOfReach(error);
}

function isOutOfReach(error: TaskMasterError): boolean {
  return error instanceof UnavailableError || error instanceof DeadlineExceededError;
}

function exitCodeOf(thrown: unknown): ExitCode {
  if (thrown instanceof UsageError || thrown instanceof CommanderError) return exitCodes.usage;
  if (thrown instanceof CommandFailedError) return thrown.exitCode;
  if (!isTaskMasterError(thrown)) return exitCodes.failed;
  return isOutOfReach(thrown) ? exitCodes.unreachable : exitCodes.failed;
}

function stackOf(error: Error): string {
  const { cause } = error;
  const stack = error.stack ?? error.message;
  return cause instanceof Error ? `${stack}\ncaused by ${stackOf(cause)}` : stack;
}
