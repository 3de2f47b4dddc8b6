import { BackupError } from '@taskmaster/backup/errors';
import {
  DeadlineExceededError,
  isTaskMasterError,
  pidText,
  type RefusedItem,
  type TaskMasterError,
  UnavailableError,
} from '@taskmaster/client';
import { escapeControls } from '@taskmaster/proto';
import { CommanderError } from 'commander';
import { AlreadyReportedError, CommandFailedError, InterruptedError, UsageError } from './cli-errors.ts';
import { type ExitCode, exitCodes, signalExitCodes } from './exit-codes.ts';
import type { Messages } from './output.ts';

interface RefusedItemReport extends Omit<RefusedItem, 'pid'> {
  /** Undefined: the item names the task by its key. */
  readonly pid: string | undefined;
}

/** An error for output: `{"error": ...}` with `--json`, otherwise one line. */
export interface ErrorReport {
  /** Stable name for programs. */
  readonly reason: string;
  readonly message: string;
  /** The next step of the user. */
  readonly hint?: string | undefined;
  /** The refused items of an update. */
  readonly items?: readonly RefusedItemReport[] | undefined;
  /** The request may have been applied, although there was no answer. */
  readonly maybeApplied?: true | undefined;
}

/** The next step of the user, by reason. */
const hints: Readonly<Record<string, string>> = {
  TASK_NOT_FOUND: 'it was completed, deleted or never enqueued; check with `taskmaster get`',
  TASK_EXISTS: 'use --mode collapse to keep the existing task, or --mode replace to replace its data',
  LEASE_LOST: 'the lease has been reset, or another worker has leased the task since; discard the work and lease again',
  LEASE_EXPIRED:
    'it can still be completed until another worker leases it; renew earlier or use a longer --lease-duration',
  NOT_LEASED: 'no worker has leased it; lease it first',
  MIXED_GROUPS: 'all queues of a request must be of one group (the text before #)',
  SCHEDULE_NOT_FOUND: '`taskmaster schedule list` lists the schedules of a group',
  DATA_TOO_LARGE: 'store the data elsewhere and enqueue a reference to it',
  REQUEST_TOO_LARGE: 'send fewer or smaller tasks at a time',
  INVALID_REGEX: 'regular expressions are RE2: no look-around, no back references',
  OVERLOADED: 'the node is overloaded; try again later or with fewer concurrent requests',
  TOO_MANY_WAITERS: 'too many workers wait for tasks on this node; try again later',
  DISK_FULL: 'free disk space on the node; until then it refuses only updates that enqueue',
  NOT_HOLDER: 'another node holds this group; use a proxy or that node as --endpoint',
  UNKNOWN_MEMBER: '`taskmaster members --all` lists all members',
  MEMBER_LEFT: '`taskmaster members --all` lists members that have left too',
  MEMBER_ALIVE: 'if it has just stopped, try again in a few seconds',
  LAST_MEMBER: 'add a node first',
  UNIMPLEMENTED: 'the version of the node does not support this',
  STARTING: 'the node is starting; try again in a moment',
  SHUTTING_DOWN: 'the node is shutting down; try again in a moment or with another --endpoint',
  STORE_FAILED: 'the node cannot use its disk; see its log',
  OLD_DATA: 'the node was started with an older copy of its data; see its log',
  CORRUPT_DATA: 'the node found damaged data; see its log',
  INTERNAL: 'an error in the node or in this program; see the log of the node',
  DEADLINE_EXCEEDED: 'use a longer --timeout',
};

const HOLDER_HINT = '`taskmaster members` shows which members do not answer';
const ENDPOINT_HINT = 'is a node running there? --endpoint or TASKMASTER_ENDPOINTS set the address';

/** Prints an error unless it was printed before. Returns the exit code. */
export function reportError(
  thrown: unknown,
  stderr: Messages,
  { json, debug }: { readonly json: boolean; readonly debug: boolean },
): ExitCode {
  if (thrown instanceof InterruptedError) return signalExitCodes[thrown.signalName];
  if (thrown instanceof AlreadyReportedError) return exitCodes.failed;
  const report = errorReport(thrown);
  if (json) stderr.object({ error: report });
  else stderr.line(errorLine(report));
  if (debug && thrown instanceof Error) stderr.stack(stackOf(thrown));
  return exitCodeOf(thrown);
}

/** The line for people. */
export function errorLine({ reason, message, hint, maybeApplied }: ErrorReport): string {
  const unknown = maybeApplied ? ' (it may have been applied)' : '';
  const line = `taskmaster: ${reason}: ${message}${unknown}${hint === undefined ? '' : `; ${hint}`}`;
  return escapeControls(line);
}

/** The report of any thrown value. */
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
  if (thrown instanceof BackupError) return { reason: thrown.reason, message: thrown.message, hint: thrown.hint };
  const { code } = thrown as NodeJS.ErrnoException;
  if (thrown instanceof Error && typeof code === 'string') {
    // Errors of the system begin with their codes.
    return { reason: code, message: thrown.message.replace(`${code}: `, '') };
  }
  return {
    reason: 'INTERNAL',
    message: thrown instanceof Error ? thrown.message : String(thrown),
    hint: 'this is a bug of this program; --debug shows the stack trace',
  };
}

function clientErrorReport(error: TaskMasterError): ErrorReport {
  const items = error.items.map((item) => ({ ...item, pid: item.key === undefined ? pidText(item.pid) : undefined }));
  return {
    reason: error.reason,
    message: messageOf(error),
    hint: hintOf(error),
    items: items.length === 0 ? undefined : items,
    maybeApplied: error.maybeApplied ? true : undefined,
  };
}

function hintOf({ reason, metadata }: TaskMasterError): string | undefined {
  if (reason === 'UNAVAILABLE') return ENDPOINT_HINT;
  // Without a partition no node answered, so `taskmaster members` would fail too.
  if (reason === 'HOLDER_UNREACHABLE') return metadata.partition === undefined ? undefined : HOLDER_HINT;
  return hints[reason];
}

/** The message of the node, with the task that it is about. */
function messageOf(error: TaskMasterError): string {
  const [first] = error.items;
  if (first === undefined) return error.message;
  const name = first.key === undefined ? pidText(first.pid) : `key ${first.key}`;
  return `${name} of ${first.queue}: ${error.message}`;
}

/** Whether an endless command waits and tries again: the error is temporary, or no node answers. */
export function isTemporary(error: TaskMasterError): boolean {
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
