import { status } from '@grpc/grpc-js';
import { isReason, isTransient, type Reason, statusOfReason } from '@taskmaster/proto';
import type { Pid } from './pid.ts';
import { errorPartsOf } from './thrown.ts';

/** Marks errors of this library, because `instanceof` fails if a process has several copies of the library. */
const BRAND = Symbol.for('taskmaster.error');

/** The node does not hold the group. It changed nothing, and usually names the holder. */
export const NOT_HOLDER = 'NOT_HOLDER' satisfies Reason;

const reasonsOfGroups: ReadonlySet<string> = new Set<Reason>([
  NOT_HOLDER,
  'PARTITION_MOVING',
  'HOLDER_UNREACHABLE',
  'OUTCOME_UNKNOWN',
]);

/** Whether the refusal is about the group of the call and not about the node that answered. */
export function isOfGroup({ reason }: TaskMasterError): boolean {
  return reasonsOfGroups.has(reason);
}

/** An item because of which an update was refused. */
export interface RefusedItem {
  readonly kind: 'enqueue' | 'dequeue' | 'renew' | 'release' | 'unknown';
  /** Index among the items of this kind in the update, from 0. */
  readonly index: number;
  readonly queue: string;
  /** Empty if the item names its task by its key. */
  readonly pid: Pid;
  /** Undefined: the item names its task by its PID. */
  readonly key?: string | undefined;
  readonly reason: string;
}

export interface TaskMasterErrorDetails {
  /**
   * Stable name for programs: a `Reason` of the protocol, `INVALID_DATA`, `TASK_NOT_COMPLETED`, `TASK_CANCELLED`,
   * `TIME_LIMIT_EXCEEDED`, or a gRPC status.
   */
  readonly reason: Reason | (string & {});
  /** gRPC status code. Default: the code of the reason. */
  readonly code?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Delay before a retry that the node asks for, in ms. */
  readonly retryDelayMs?: number | undefined;
  /** Default: whether the reason is temporary. */
  readonly retryable?: boolean | undefined;
  /** Default: false. */
  readonly maybeApplied?: boolean | undefined;
  readonly items?: readonly RefusedItem[] | undefined;
  /** Time of the repetitions, all without success, in ms. Default: the call was not repeated. */
  readonly gaveUpAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** Error of all calls of this library. Only wrong use of the API is a `TypeError`. */
export class TaskMasterError extends Error {
  override readonly name: string = 'TaskMasterError';
  /** Of the prototype, so that it is not shown with each error. */
  get [BRAND](): true {
    return true;
  }
  /** Stable name for programs. */
  readonly reason: Reason | (string & {});
  /** gRPC status code. */
  readonly code: number;
  /** Details by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Delay before a retry that the node asks for, in ms. Undefined: it asks for none. */
  readonly retryDelayMs: number | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /**
   * Whether the request may have been applied, or may still be applied: one of its attempts got no answer, or a write of the node
   * failed. False: the request changed nothing.
   */
  readonly maybeApplied: boolean;
  /** The items because of which an update was refused. Empty for other errors. */
  readonly items: readonly RefusedItem[];
  /** Time of the repetitions, all without success, in ms. Undefined: the call was not repeated. */
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

/** The status code of a reason: a reason of the protocol, or the name of a gRPC status. */
function codeOf(reason: string): number {
  if (isReason(reason)) return statusOfReason[reason];
  return Object.hasOwn(status, reason) ? status[reason as keyof typeof status] : status.UNKNOWN;
}

/** Whether a value is an error of this library. Works across several copies of the library. */
export function isTaskMasterError(value: unknown): value is TaskMasterError {
  try {
    return typeof value === 'object' && value !== null && BRAND in value;
  } catch {
    // A revoked proxy.
    return false;
  }
}

/** The lease token is not current any more: another worker has leased the task since, or leases were reset. Stop the work. */
export class LeaseLostError extends TaskMasterError {
  override readonly name = 'LeaseLostError';
}

/** The lease ended before it was renewed or released. */
export class LeaseExpiredError extends TaskMasterError {
  override readonly name = 'LeaseExpiredError';
}

/** The task is not in the queue. */
export class TaskNotFoundError extends TaskMasterError {
  override readonly name = 'TaskNotFoundError';
}

/** The queue has a task with the PID of an enqueue with `mode: 'fail'`. */
export class TaskExistsError extends TaskMasterError {
  override readonly name = 'TaskExistsError';
}

/** The task is in the queue, but no worker has leased it. */
export class NotLeasedError extends TaskMasterError {
  override readonly name = 'NotLeasedError';
}

/** The request is wrong and must not be repeated. Class of all reasons with INVALID_ARGUMENT. */
export class InvalidRequestError extends TaskMasterError {
  override readonly name = 'InvalidRequestError';
}

/** The node is overloaded. Wait for `retryDelayMs`. */
export class OverloadedError extends TaskMasterError {
  override readonly name = 'OverloadedError';
}

/** The credential of the caller is missing or not valid. */
export class UnauthenticatedError extends TaskMasterError {
  override readonly name = 'UnauthenticatedError';
}

/** The caller has no right to do this. The metadata has the `principal`, the `right` and the `group`. */
export class PermissionDeniedError extends TaskMasterError {
  override readonly name = 'PermissionDeniedError';
}

/** The disk of the node is full. It refuses updates that enqueue; all other requests go on. */
export class DiskFullError extends TaskMasterError {
  override readonly name = 'DiskFullError';
}

/** No node can be reached, the connection broke, or the node is starting or shutting down. */
export class UnavailableError extends TaskMasterError {
  override readonly name = 'UnavailableError';
}

/** There was no answer before the deadline. */
export class DeadlineExceededError extends TaskMasterError {
  override readonly name = 'DeadlineExceededError';
}

/** The signal of the call was aborted, or the client was closed. */
export class CancelledError extends TaskMasterError {
  override readonly name = 'CancelledError';
}

/** The node has no cluster, or the engine is in this process. */
export class NoClusterError extends TaskMasterError {
  override readonly name = 'NoClusterError';
}

/** The endpoints belong to several clusters, or none of them to the cluster that the client wants. */
export class WrongClusterError extends TaskMasterError {
  override readonly name = 'WrongClusterError';
}

/** No member of the cluster has this name. */
export class UnknownMemberError extends TaskMasterError {
  override readonly name = 'UnknownMemberError';
}

/** The member has left the cluster, or was removed. */
export class MemberLeftError extends TaskMasterError {
  override readonly name = 'MemberLeftError';
}

/** A member to remove is alive. Drain it, or stop it first. */
export class MemberAliveError extends TaskMasterError {
  override readonly name = 'MemberAliveError';
}

/** No other active member can take the partitions of this member. */
export class LastMemberError extends TaskMasterError {
  override readonly name = 'LastMemberError';
}

/** A payload could not be encoded, decoded or validated. */
export class InvalidDataError extends TaskMasterError {
  override readonly name = 'InvalidDataError';
  /** Issues of the schema. Empty if the codec failed. */
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

/** The task of a worker was cancelled. Stop the work: the task does not run again, unless it is completed nevertheless. */
export class TaskCancelledError extends TaskMasterError {
  override readonly name = 'TaskCancelledError';
  /** Why it was cancelled. May be empty. */
  readonly cancelReason: string;

  constructor(
    message: string,
    options: { readonly cancelReason: string; readonly metadata: Readonly<Record<string, string>> },
  ) {
    super(message, { reason: 'TASK_CANCELLED', code: status.CANCELLED, metadata: options.metadata });
    this.cancelReason = options.cancelReason;
  }
}

/** The attempt of a worker has reached its time limit. Stop the work: the attempt has failed, whatever the worker does. */
export class TimeLimitError extends TaskMasterError {
  override readonly name = 'TimeLimitError';
  /** How long the attempt was allowed to take, in ms. */
  readonly timeLimitMs: number;

  constructor(timeLimitMs: number, metadata: Readonly<Record<string, string>>) {
    const message = `the attempt exceeded its time limit of ${timeLimitMs} ms`;
    super(message, { reason: 'TIME_LIMIT_EXCEEDED', code: status.DEADLINE_EXCEEDED, metadata });
    this.timeLimitMs = timeLimitMs;
  }
}

/** A task that was waited for has ended without being completed. */
export class TaskNotCompletedError extends TaskMasterError {
  override readonly name = 'TaskNotCompletedError';
  /** How it has ended. */
  readonly outcome: 'dead-lettered' | 'removed' | 'cancelled';

  constructor(
    message: string,
    options: {
      readonly outcome: TaskNotCompletedError['outcome'];
      readonly metadata: Readonly<Record<string, string>>;
    },
  ) {
    super(message, { reason: 'TASK_NOT_COMPLETED', code: status.FAILED_PRECONDITION, metadata: options.metadata });
    this.outcome = options.outcome;
  }
}

type ErrorClass = new (message: string, details: TaskMasterErrorDetails) => TaskMasterError;

const classOfReason: Readonly<Record<string, ErrorClass>> = {
  UNAUTHENTICATED: UnauthenticatedError,
  PERMISSION_DENIED: PermissionDeniedError,
  LEASE_LOST: LeaseLostError,
  LEASE_EXPIRED: LeaseExpiredError,
  TASK_NOT_FOUND: TaskNotFoundError,
  TASK_EXISTS: TaskExistsError,
  NOT_LEASED: NotLeasedError,
  DISK_FULL: DiskFullError,
  NO_CLUSTER: NoClusterError,
  WRONG_CLUSTER: WrongClusterError,
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

/** Makes an error of the class for its reason, or for its status if the reason has no class. */
export function makeError(message: string, details: TaskMasterErrorDetails): TaskMasterError {
  const { reason } = details;
  const code = details.code ?? codeOf(reason);
  const Class = (Object.hasOwn(classOfReason, reason) ? classOfReason[reason] : classOfCode[code]) ?? TaskMasterError;
  return new Class(message, details);
}

/** The same error with another `maybeApplied`. */
export function withMaybeApplied(error: TaskMasterError, maybeApplied: boolean): TaskMasterError {
  return error.maybeApplied === maybeApplied ? error : changed(error, error.message, { maybeApplied });
}

/** The same error of a call whose repetitions took this time, in ms. */
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

/** The error of an aborted signal. @param cause the last error of the call, which tells whether it may have been applied. */
export function cancelled(signal: AbortSignal | undefined, cause?: TaskMasterError): CancelledError {
  const reason: unknown = signal?.reason;
  const parts = errorPartsOf(reason);
  const why = parts === undefined || parts.name === 'AbortError' ? '' : `: ${parts.message}`;
  return new CancelledError(`the call was cancelled by its signal${why}`, {
    reason: 'CANCELLED',
    maybeApplied: cause?.maybeApplied ?? false,
    cause: cause ?? reason,
  });
}
