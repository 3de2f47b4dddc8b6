import { status } from '@grpc/grpc-js';

/** Domain of every ErrorInfo this project sends. */
export const ERROR_DOMAIN = 'taskmaster';

/**
 * Every reason a request can be refused for, and the gRPC status it travels under. The one table shared by node, proxy
 * and client; docs/reference/errors.md says what each means and what the caller does next.
 */
export const statusOfReason = {
  // The request itself is wrong: repeating it cannot help.
  MALFORMED_REQUEST: status.INVALID_ARGUMENT,
  INVALID_QUEUE: status.INVALID_ARGUMENT,
  INVALID_PID: status.INVALID_ARGUMENT,
  INVALID_ARGUMENT: status.INVALID_ARGUMENT,
  INVALID_REGEX: status.INVALID_ARGUMENT,
  INVALID_PAGE_TOKEN: status.INVALID_ARGUMENT,
  MIXED_GROUPS: status.INVALID_ARGUMENT,
  CONFLICTING_ITEMS: status.INVALID_ARGUMENT,
  EMPTY_REQUEST: status.INVALID_ARGUMENT,
  TOO_MANY_ITEMS: status.INVALID_ARGUMENT,
  DATA_TOO_LARGE: status.INVALID_ARGUMENT,
  REQUEST_TOO_LARGE: status.INVALID_ARGUMENT,
  REQUEST_ID_REUSED: status.INVALID_ARGUMENT,

  // The tasks are not as the request supposes.
  TASK_NOT_FOUND: status.NOT_FOUND,
  TASK_EXISTS: status.ALREADY_EXISTS,
  LEASE_LOST: status.FAILED_PRECONDITION,
  LEASE_EXPIRED: status.FAILED_PRECONDITION,
  NOT_LEASED: status.FAILED_PRECONDITION,
  FIFO_EXHAUSTED: status.FAILED_PRECONDITION,

  // Between nodes and operators of a cluster.
  WRONG_CLUSTER: status.FAILED_PRECONDITION,
  NAME_IN_USE: status.ALREADY_EXISTS,
  MEMBER_LEFT: status.FAILED_PRECONDITION,
  MEMBER_ALIVE: status.FAILED_PRECONDITION,
  LAST_MEMBER: status.FAILED_PRECONDITION,
  UNKNOWN_MEMBER: status.NOT_FOUND,
  NO_CLUSTER: status.FAILED_PRECONDITION,
  WRONG_KEY: status.UNAUTHENTICATED,

  // The node cannot serve it now.
  OVERLOADED: status.RESOURCE_EXHAUSTED,
  TOO_MANY_WAITERS: status.RESOURCE_EXHAUSTED,
  DISK_FULL: status.RESOURCE_EXHAUSTED,
  NOT_HOLDER: status.FAILED_PRECONDITION,
  PARTITION_MOVING: status.UNAVAILABLE,
  HOLDER_UNREACHABLE: status.UNAVAILABLE,
  OUTCOME_UNKNOWN: status.UNAVAILABLE,
  STARTING: status.UNAVAILABLE,
  SHUTTING_DOWN: status.UNAVAILABLE,
  STORE_FAILED: status.UNAVAILABLE,
  OLD_DATA: status.UNAVAILABLE,
  CORRUPT_DATA: status.DATA_LOSS,

  // The caller's own doing.
  CANCELLED: status.CANCELLED,
  DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,

  // A fault of ours.
  INTERNAL: status.INTERNAL,
} as const satisfies Record<string, status>;

/** Why a request was refused; stable, for programs. */
export type Reason = keyof typeof statusOfReason;

/** Whether a string from the wire is a reason this version knows. */
export function isReason(text: string): text is Reason {
  return Object.hasOwn(statusOfReason, text);
}

/**
 * Whether the same request may succeed later. Whether repeating it is also safe depends on the request: see the
 * client's retry rules.
 */
export function isTransient(reason: Reason): boolean {
  const code = statusOfReason[reason];
  return code === status.UNAVAILABLE || code === status.RESOURCE_EXHAUSTED;
}

/**
 * Refusals after which nobody knows whether the request was carried out, or will be: its answer was lost, the caller's time
 * was over, or a write failed half-way. Every other one says that nothing was changed.
 */
export const openReasons: ReadonlySet<string> = new Set<Reason>([
  'OUTCOME_UNKNOWN',
  'STORE_FAILED',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'INTERNAL',
]);

/** In the metadata of such a refusal, where its sender knows better: it came before anything was done. */
export const NOTHING_CHANGED: Readonly<Record<string, string>> = { nothing_changed: 'true' };

/** Whether a refusal leaves open whether the request was carried out. */
export function leavesOpen(refusal: {
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
}): boolean {
  return openReasons.has(refusal.reason) && refusal.metadata.nothing_changed !== NOTHING_CHANGED.nothing_changed;
}
