import { status } from '@grpc/grpc-js';

/** Domain of every ErrorInfo this project sends. */
export const ERROR_DOMAIN = 'taskmaster';

/**
 * Every reason for a refusal, with the gRPC status that carries it. Node, proxy and client share this table. The comments say
 * what a reason means and, after "Do:", what the caller does next. docs/reference/errors.md is generated from them.
 */
export const statusOfReason = {
  // The request is wrong: a retry cannot help
  /**
   * The bytes are not a message of this type, a number is beyond 2^53, or a bulk run has conditions that this release does not
   * know. Do: Check the version of the stub.
   */
  MALFORMED_REQUEST: status.INVALID_ARGUMENT,
  /** The name of a queue or a schedule is empty, too long, not UTF-8, has U+FFFD, or is reserved. Do: Use another name. */
  INVALID_QUEUE: status.INVALID_ARGUMENT,
  /** A PID is missing or too long. Do: Shorten it, or use its hash. */
  INVALID_PID: status.INVALID_ARGUMENT,
  /** A field is out of range. The metadata has the field and its limit. Do: Read the field's comment in the .proto. */
  INVALID_ARGUMENT: status.INVALID_ARGUMENT,
  /**
   * The expression is too long, is not RE2, or takes too long to match. Do: Simplify it, or filter by group. RE2 has no
   * look-ahead and no back references.
   */
  INVALID_REGEX: status.INVALID_ARGUMENT,
  /**
   * The rule of a schedule cannot be used: the cron expression is wrong or never runs after now, the time zone is unknown, or
   * the schedule has both an expression and an interval, or neither. The metadata has the field. Do: Correct it.
   */
  INVALID_SCHEDULE: status.INVALID_ARGUMENT,
  /** The token is not from a listing. Do: Begin with an empty token. */
  INVALID_PAGE_TOKEN: status.INVALID_ARGUMENT,
  /**
   * An update names queues of two groups, or a subscription a queue of another group than its topic. Do: An update is atomic
   * within one group: split it. Subscribe queues of the topic's group.
   */
  MIXED_GROUPS: status.INVALID_ARGUMENT,
  /** An update names one task twice among dequeues, renewals and releases, perhaps once by its key. Do: Name it once. */
  CONFLICTING_ITEMS: status.INVALID_ARGUMENT,
  /** The request has nothing to do. Do: Do not send it. */
  EMPTY_REQUEST: status.INVALID_ARGUMENT,
  /**
   * The request has more items than one request may have, or the group has as many settings, pauses or limits of queues or
   * unfinished bulk runs as it may. Do: Split it, delete settings, end pauses or limits, or cancel runs.
   */
  TOO_MANY_ITEMS: status.INVALID_ARGUMENT,
  /** A payload is too large. Do: Store the data elsewhere and enqueue a reference to it. */
  DATA_TOO_LARGE: status.INVALID_ARGUMENT,
  /**
   * The request is too large; or it would publish, or move to dead-letter queues, more payload at once than fits into memory; or
   * its reply would have too many bytes of assigned PIDs; or its signals would write too much. Do: Split it.
   */
  REQUEST_TOO_LARGE: status.INVALID_ARGUMENT,
  /** The message is compressed. A small one could stand for gigabytes. Do: Switch compression off in the stub. */
  COMPRESSED_REQUEST: status.UNIMPLEMENTED,
  /** The request id, or the id of a bulk run, belongs to a different request. Do: Use a new id for every request. */
  REQUEST_ID_REUSED: status.INVALID_ARGUMENT,

  // The caller
  /** The port speaks TLS, and the caller spoke plain text. Do: Connect with TLS. */
  TLS_REQUIRED: status.FAILED_PRECONDITION,
  /**
   * The call has no valid credential: it is missing, wrong, expired or revoked, or it belongs to no principal. Do: Send
   * `authorization: Bearer` with a token, or a client certificate.
   */
  UNAUTHENTICATED: status.UNAUTHENTICATED,
  /**
   * The principal does not have the right that the call needs. The metadata has `principal`, `right` and, for rights on
   * queues, `group`. Do: Ask an operator for the right.
   */
  PERMISSION_DENIED: status.PERMISSION_DENIED,

  // The task is in another state
  /** There is no such task: it is completed or deleted, or never existed. Do: Stop the work on it. */
  TASK_NOT_FOUND: status.NOT_FOUND,
  /** There is no such schedule. Do: Put it first, or check its group and its name. */
  SCHEDULE_NOT_FOUND: status.NOT_FOUND,
  /** The group has as many schedules as it may. The metadata has the `limit`. Do: Delete some, or use another group. */
  TOO_MANY_SCHEDULES: status.FAILED_PRECONDITION,
  /**
   * A task with this PID exists: the mode of the enqueue is to fail then, the task has another key, or a dead letter cannot go
   * back to it. Do: The task is already there. With a key, choose another PID.
   */
  TASK_EXISTS: status.ALREADY_EXISTS,
  /**
   * The lease token is no longer current: the task was leased again, or its lease was reset. Do: Stop the work:
   * another worker may have the task.
   */
  LEASE_LOST: status.FAILED_PRECONDITION,
  /**
   * The lease expired before the renewal or release, perhaps at the time limit of the attempt. Do: Complete the task if the
   * work is done. This succeeds until another worker leases the task.
   */
  LEASE_EXPIRED: status.FAILED_PRECONDITION,
  /** A renewal or release has no token, and the task is not leased. Do: Lease the task first. */
  NOT_LEASED: status.FAILED_PRECONDITION,
  /** A task whose delay is to change is leased. Do: Leave it to its worker, or release it with its lease token. */
  TASK_LEASED: status.FAILED_PRECONDITION,
  /** A task to move has waited for others, or has parents or an order key. Do: Leave it where others know it. */
  TASK_CONNECTED: status.FAILED_PRECONDITION,
  /** The task to put back did not come to this queue from another one. Do: Dequeue it, and enqueue it where it belongs. */
  NOT_DEAD_LETTERED: status.FAILED_PRECONDITION,
  /**
   * The queue holds the largest possible PID, so a FIFO enqueue finds no larger one. Do: Give a PID, or use another
   * queue.
   */
  FIFO_EXHAUSTED: status.FAILED_PRECONDITION,

  // Cluster members
  /** The node belongs to another cluster. Do: Check its address and its data directory. */
  WRONG_CLUSTER: status.FAILED_PRECONDITION,
  /**
   * Another member has this name. For an operator's request: several members have it, because they joined at the
   * same moment. Do: Give the new node another name. If it has lost its disk, remove the old member first (`taskmaster members
   * remove NAME`), which gives up its tasks. In a request, name a member by its
   * id.
   */
  NAME_IN_USE: status.ALREADY_EXISTS,
  /**
   * The member has left the cluster or was removed. Its id is not accepted again. Do: Start it with an empty data
   * directory.
   */
  MEMBER_LEFT: status.FAILED_PRECONDITION,
  /** The member to remove still answers. Do: Drain it, or stop it first. */
  MEMBER_ALIVE: status.FAILED_PRECONDITION,
  /** No other active member could take the partitions of this one. Do: Add a node first. */
  LAST_MEMBER: status.FAILED_PRECONDITION,
  /** No member has this name. Do: See `taskmaster members`. */
  UNKNOWN_MEMBER: status.NOT_FOUND,
  /**
   * The node runs without a cluster, so it has neither members nor holders to report. Do: Start it with
   * `--bootstrap` or `--join`.
   */
  NO_CLUSTER: status.FAILED_PRECONDITION,
  /**
   * A call or reply that claims to come from another node has no seal of a key of this cluster, or was sent before.
   * Do: Give all nodes the same `--cluster-key-file`.
   */
  WRONG_KEY: status.UNAUTHENTICATED,
  /**
   * Two members, or a proxy and a member, have releases that do not work together: they speak no common protocol, or one sends
   * a partition in a data format that the other does not know. Do: Upgrade as in docs/upgrading.md.
   */
  INCOMPATIBLE_RELEASE: status.FAILED_PRECONDITION,

  // The node cannot serve the request now
  /**
   * Too many requests or bytes are in flight. The last fifth of the room is for updates without enqueues. Do: Wait
   * for the retry delay, with jitter.
   */
  OVERLOADED: status.RESOURCE_EXHAUSTED,
  /**
   * Too many calls wait, for tasks or for news of an autoscaler, at the node or proxy, or on one connection or stream, which must
   * keep room for other calls; or they name too many queues, or have too many different patterns of queues. The metadata has the
   * `limit`. Do: Use fewer waiting workers, name several queues in one wait, use one pattern in several workers, or open another
   * connection.
   */
  TOO_MANY_WAITERS: status.RESOURCE_EXHAUSTED,
  /**
   * The update would create a queue, and the node holds as many as it may. The metadata has the `limit`. All calls for existing
   * queues go on. Do: Delete queues, use fewer of them, or raise `engine.maxQueues` of the node.
   */
  TOO_MANY_QUEUES: status.RESOURCE_EXHAUSTED,
  /**
   * The group has as many subscriptions as it may. The metadata has the `limit`. Renewals go on. Do: Unsubscribe queues, give
   * subscriptions a time to live, or use topics of several groups.
   */
  TOO_MANY_SUBSCRIPTIONS: status.RESOURCE_EXHAUSTED,
  /**
   * The caller or the group has reached a quota of the access file. The metadata has the `quota` (`connections`,
   * `requestsPerSecond`, `bytesInFlight`, `waiters`, `tasks`, `bytes` or `queues`), its `limit`, and the `principal` or the
   * `group`. Do: Wait for the retry delay, use less, or ask an operator for more.
   */
  QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  /**
   * As many tasks wait in a queue, or with one limit key, as its settings allow. The metadata has the `queue`, the `limit`, and
   * for a key the `limitKey`. Nothing has changed. Do: Wait for the retry delay, enqueue less, or add workers.
   */
  BACKLOG_FULL: status.RESOURCE_EXHAUSTED,
  /**
   * The disk has no space. Updates that enqueue are refused; all other calls go on. Do: Free some space. The node
   * then recovers by itself.
   */
  DISK_FULL: status.RESOURCE_EXHAUSTED,
  /**
   * The node or proxy that forwarded the call has a system clock that is more than five minutes off the clock of the holder, and
   * one of the two has an earlier release. Nothing has changed. Do: Set the clocks right, as with NTP, then retry.
   */
  CLOCK_SKEW: status.UNAVAILABLE,
  /** Another node holds the group. Do: Call the node in the metadata. */
  NOT_HOLDER: status.FAILED_PRECONDITION,
  /** The group moves to another node, and this takes longer than calls are held. Do: Retry after the delay. */
  PARTITION_MOVING: status.UNAVAILABLE,
  /**
   * The node that holds the group is unknown or cannot be reached. Nothing has changed. Do: Retry after the delay.
   * `taskmaster members` shows the missing member.
   */
  HOLDER_UNREACHABLE: status.UNAVAILABLE,
  /**
   * The connection between a proxy and the node broke after the request was sent. The request may have been applied,
   * or may still be, even if a later attempt was refused. Do: Repeat it if that is safe.
   */
  OUTCOME_UNKNOWN: status.UNAVAILABLE,
  /** The node recovers, or was paused and asks whether it is still a member. Do: Retry after the delay. */
  STARTING: status.UNAVAILABLE,
  /** The node shuts down. Do: Use another endpoint, or wait. */
  SHUTTING_DOWN: status.UNAVAILABLE,
  /**
   * A write or fsync failed. The node writes nothing until a restart. The failed write may be on disk all the same;
   * only the next start shows. Later requests have changed nothing, and their metadata say so. Do: Check the log and
   * the disk, and restart the node. Then repeat the request if that is safe.
   */
  STORE_FAILED: status.UNAVAILABLE,
  /**
   * The node was started with an older copy of its data directory, or its database has lost acknowledged work, and it serves
   * none of it. Do: See its log and docs/operate/cluster.md or docs/operate/postgres.md.
   */
  OLD_DATA: status.UNAVAILABLE,
  /**
   * The backup of a partition ended before it was complete: the partition moved to another node, the node is stopping, or
   * a write failed. Do: Begin the backup of this partition again.
   */
  BACKUP_BROKEN: status.UNAVAILABLE,
  /**
   * The partition changes faster than its backup is read. Do: Read faster, or raise the limit of bytes per second. Then
   * begin the backup of this partition again.
   */
  BACKUP_TOO_SLOW: status.RESOURCE_EXHAUSTED,
  /**
   * The node sends as many backups of partitions as it may at once. The metadata has the `limit`. Do: Retry after the
   * delay.
   */
  TOO_MANY_BACKUPS: status.RESOURCE_EXHAUSTED,
  /** Rows on disk are damaged. Do: The node's log names the file. Restore a backup. */
  CORRUPT_DATA: status.DATA_LOSS,

  // Ended by the caller
  /**
   * The caller cancelled the call. A cancelled wait has leased nothing. An update may have been applied. Do: Repeat
   * it if that is safe.
   */
  CANCELLED: status.CANCELLED,
  /**
   * The deadline has passed. A request that was sent may still be applied. The client reports the last refusal
   * instead, if there was one. Do: Repeat it if that is safe.
   */
  DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,

  // Faults
  /** A fault in TaskMaster. The request may have been applied. The node's log has the details. Do: Report it. */
  INTERNAL: status.INTERNAL,
} as const satisfies Record<string, status>;

/** Why a request was refused. Stable, for programs. */
export type Reason = keyof typeof statusOfReason;

/** Whether a string from the wire is a reason this version knows. */
export function isReason(text: string): text is Reason {
  return Object.hasOwn(statusOfReason, text);
}

/**
 * Whether the same request may succeed later. docs/contract.md says which requests are safe to repeat.
 */
export function isTransient(reason: Reason): boolean {
  const code = statusOfReason[reason];
  return code === status.UNAVAILABLE || code === status.RESOURCE_EXHAUSTED;
}

/**
 * Refusals that leave open whether the request was or will be applied: the reply was lost, the deadline passed, or a write failed
 * half-way. All other refusals mean that nothing has changed.
 */
export const openReasons: ReadonlySet<string> = new Set<Reason>([
  'OUTCOME_UNKNOWN',
  'STORE_FAILED',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'INTERNAL',
]);

/** In the metadata of an open refusal whose sender knows that nothing has changed. */
export const NOTHING_CHANGED: Readonly<Record<string, string>> = { nothing_changed: 'true' };

/** Whether a refusal leaves open whether the request was carried out. */
export function leavesOpen(refusal: {
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
}): boolean {
  return openReasons.has(refusal.reason) && refusal.metadata.nothing_changed !== NOTHING_CHANGED.nothing_changed;
}
