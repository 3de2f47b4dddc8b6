import { status } from '@grpc/grpc-js';
import { isReason, isTransient, type Reason, statusOfReason } from '@taskmaster/proto';
import type { Pid } from './pid.ts';

/** Marks errors of this library across copies of it, where `instanceof` fails. */
const BRAND = Symbol.for('taskmaster.error');

/** The node does not hold the group, changed nothing, and mostly says who holds it. */
export const NOT_HOLDER = 'NOT_HOLDER' satisfies Reason;

const reasonsOfGroups: ReadonlySet<string> = new Set<Reason>([
  NOT_HOLDER,
  'PARTITION_MOVING',
  'HOLDER_UNREACHABLE',
  'OUTCOME_UNKNOWN',
]);

/** Whether a refusal says something of the group that a call was about, and nothing of the node that answered. */
export function isOfGroup({ reason }: TaskMasterError): boolean {
  return reasonsOfGroups.has(reason);
}

/** One item of an update that made the whole update impossible. */
export interface RefusedItem {
  readonly kind: 'enqueue' | 'dequeue' | 'renew' | 'release' | 'unknown';
  /** Place among the update's items of that kind, from 0. */
  readonly index: number;
  readonly queue: string;
  readonly pid: Pid;
  readonly reason: string;
}

export interface TaskMasterErrorDetails {
  /** Stable, for programs: a `Reason` of the protocol, `INVALID_DATA`, or the name of a gRPC status. */
  readonly reason: Reason | (string & {});
  /** gRPC status code. Default: the reason's. */
  readonly code?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** How long the node asks to wait before a retry, in ms. */
  readonly retryDelayMs?: number | undefined;
  /** Default: as the reason says. */
  readonly retryable?: boolean | undefined;
  /** Default: false. */
  readonly maybeApplied?: boolean | undefined;
  readonly items?: readonly RefusedItem[] | undefined;
  /** How long the call was repeated in vain, in ms. Default: it was not. */
  readonly gaveUpAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** Everything a call of this library rejects with, except for misuse of the API itself, which is a `TypeError`. */
export class TaskMasterError extends Error {
  override readonly name: string = 'TaskMasterError';
  readonly [BRAND] = true;
  /** Stable, for programs. */
  readonly reason: Reason | (string & {});
  /** gRPC status code. */
  readonly code: number;
  /** Details by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long the node asks to wait before a retry, in ms. */
  readonly retryDelayMs: number | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /**
   * An attempt of the request got no answer, or a write of the node failed in the middle of it: it may have been carried out, or may still be, whatever later ones were refused
   * for. False: it changed nothing.
   */
  readonly maybeApplied: boolean;
  /** The items that made an update impossible; empty for other errors. */
  readonly items: readonly RefusedItem[];
  /** How long the call was repeated in vain, in ms; undefined: it was not. */
  readonly gaveUpAfterMs: number | undefined;

  constructor(message: string, details: TaskMasterErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    const { reason } = details;
    this.reason = reason;
    this.code = details.code ?? codeOf(reason);
    this.metadata = details.metadata ?? {};
    this.retryDelayMs = details.retryDelayMs;
    this.retryable = details.retryable ?? (isReason(reason) && isTransient(reason));
    this.maybeApplied = details.maybeApplied ?? false;
    this.items = details.items ?? [];
    this.gaveUpAfterMs = details.gaveUpAfterMs;
  }
}

/** A reason is one of the protocol's, or the name of a gRPC status where gRPC itself failed. */
function codeOf(reason: string): number {
  if (isReason(reason)) return statusOfReason[reason];
  return Object.hasOwn(status, reason) ? status[reason as keyof typeof status] : status.UNKNOWN;
}

/** Whether a value is an error of this library, whichever copy of it made the error. */
export function isTaskMasterError(value: unknown): value is TaskMasterError {
  return typeof value === 'object' && value !== null && BRAND in value;
}

/** Somebody else has, or had, the task since: its lease token is no longer current. Stop working on it. */
export class LeaseLostError extends TaskMasterError {
  override readonly name = 'LeaseLostError';
}

/** The lease ended before it was renewed or given back. */
export class LeaseExpiredError extends TaskMasterError {
  override readonly name = 'LeaseExpiredError';
}

/** The task is not in the queue (any more). */
export class TaskNotFoundError extends TaskMasterError {
  override readonly name = 'TaskNotFoundError';
}

/** An enqueue with `mode: 'fail'` met a task of the same PID. */
export class TaskExistsError extends TaskMasterError {
  override readonly name = 'TaskExistsError';
}

/** The task is in the queue, but nobody has a lease on it. */
export class NotLeasedError extends TaskMasterError {
  override readonly name = 'NotLeasedError';
}

/** The request itself is wrong; repeating it cannot help. Covers every reason under INVALID_ARGUMENT. */
export class InvalidRequestError extends TaskMasterError {
  override readonly name = 'InvalidRequestError';
}

/** The node has too much to do; wait `retryDelayMs`. */
export class OverloadedError extends TaskMasterError {
  override readonly name = 'OverloadedError';
}

/** The node's disk is full: updates that enqueue are refused, all others go on. */
export class DiskFullError extends TaskMasterError {
  override readonly name = 'DiskFullError';
}

/** No node could be reached, the connection broke, or the node is starting or stopping. */
export class UnavailableError extends TaskMasterError {
  override readonly name = 'UnavailableError';
}

/** No answer came in time. */
export class DeadlineExceededError extends TaskMasterError {
  override readonly name = 'DeadlineExceededError';
}

/** The caller's signal was aborted, or the client was closed. */
export class CancelledError extends TaskMasterError {
  override readonly name = 'CancelledError';
}

/** The node stands alone, or the engine is in this process: there are no members to tell of. */
export class NoClusterError extends TaskMasterError {
  override readonly name = 'NoClusterError';
}

/** No member of the cluster has this name. */
export class UnknownMemberError extends TaskMasterError {
  override readonly name = 'UnknownMemberError';
}

/** The member has left the cluster, or was given up. */
export class MemberLeftError extends TaskMasterError {
  override readonly name = 'MemberLeftError';
}

/** A member that is to be given up still answers: drain it, or stop it first. */
export class MemberAliveError extends TaskMasterError {
  override readonly name = 'MemberAliveError';
}

/** No other active member could take what this one holds. */
export class LastMemberError extends TaskMasterError {
  override readonly name = 'LastMemberError';
}

/** A payload could not be encoded, decoded or validated. */
export class InvalidDataError extends TaskMasterError {
  override readonly name = 'InvalidDataError';
  /** What the schema found; empty when the codec failed. */
  readonly issues: readonly { readonly message: string; readonly path: string }[];

  constructor(
    message: string,
    options: {
      readonly issues?: readonly { readonly message: string; readonly path: string }[];
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, { reason: 'INVALID_DATA', code: status.INVALID_ARGUMENT, cause: options.cause });
    this.issues = options.issues ?? [];
  }
}

type ErrorClass = new (message: string, details: TaskMasterErrorDetails) => TaskMasterError;

const classOfReason: Readonly<Record<string, ErrorClass>> = {
  LEASE_LOST: LeaseLostError,
  LEASE_EXPIRED: LeaseExpiredError,
  TASK_NOT_FOUND: TaskNotFoundError,
  TASK_EXISTS: TaskExistsError,
  NOT_LEASED: NotLeasedError,
  DISK_FULL: DiskFullError,
  NO_CLUSTER: NoClusterError,
  UNKNOWN_MEMBER: UnknownMemberError,
  MEMBER_LEFT: MemberLeftError,
  MEMBER_ALIVE: MemberAliveError,
  LAST_MEMBER: LastMemberError,
};

const classOfCode: Readonly<Record<number, ErrorClass>> = {
  [status.INVALID_ARGUMENT]: InvalidRequestError,
  [status.RESOURCE_EXHAUSTED]: OverloadedError,
  [status.UNAVAILABLE]: UnavailableError,
  [status.DEADLINE_EXCEEDED]: DeadlineExceededError,
  [status.CANCELLED]: CancelledError,
};

/** Makes the error of the class that callers catch for this reason or, failing that, for this status. */
export function makeError(message: string, details: TaskMasterErrorDetails): TaskMasterError {
  const { reason } = details;
  const code = details.code ?? codeOf(reason);
  const Class = (Object.hasOwn(classOfReason, reason) ? classOfReason[reason] : classOfCode[code]) ?? TaskMasterError;
  return new Class(message, details);
}

/** The same error, saying otherwise whether the call may have taken effect. */
export function withMaybeApplied(error: TaskMasterError, maybeApplied: boolean): TaskMasterError {
  return error.maybeApplied === maybeApplied ? error : changed(error, error.message, { maybeApplied });
}

/** The same error of a call that was repeated for so long, in ms. */
export function withGaveUp(
  error: TaskMasterError,
  gaveUpAfterMs: number,
  changes: Pick<TaskMasterErrorDetails, 'maybeApplied' | 'cause'> = {},
): TaskMasterError {
  const message = `${error.message}; gave up after ${Math.round(gaveUpAfterMs / 100) / 10} s`;
  return changed(error, message, { ...changes, gaveUpAfterMs });
}

function changed(error: TaskMasterError, message: string, changes: Partial<TaskMasterErrorDetails>): TaskMasterError {
  const { reason, code, metadata, retryDelayMs, retryable, maybeApplied, items, gaveUpAfterMs, cause } = error;
  const details = { reason, code, metadata, retryDelayMs, retryable, maybeApplied, items, gaveUpAfterMs, cause };
  return makeError(message, { ...details, ...changes });
}

/** The caller's signal was aborted. `cause`: what went wrong before, which tells whether the call took effect. */
export function cancelled(signal: AbortSignal | undefined, cause?: TaskMasterError): CancelledError {
  const reason: unknown = signal?.reason;
  const why = reason instanceof Error && reason.name !== 'AbortError' ? `: ${reason.message}` : '';
  return new CancelledError(`the call was given up by its signal${why}`, {
    reason: 'CANCELLED',
    maybeApplied: cause?.maybeApplied ?? false,
    cause: cause ?? reason,
  });
}
