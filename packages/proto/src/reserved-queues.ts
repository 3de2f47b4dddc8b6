/**
 * Names, within a group, that begin with this are reserved: the tasks of these queues are records of the group. Requests cannot
 * name them, and listings do not show them.
 */
const RESERVED_PREFIX = '$taskmaster/';

/** The reserved queues. The PID of a task there is the key of its record, and its payload the record. */
export const reservedQueues = {
  /** How tasks have ended, with their results. */
  results: `${RESERVED_PREFIX}results`,
  /**
   * Where the tasks with keys are, which task is the last one of an order key, who has a parent, and signals of tasks that
   * wait.
   */
  keys: `${RESERVED_PREFIX}keys`,
  /** Signals of tasks that are not there yet. */
  signals: `${RESERVED_PREFIX}signals`,
  /** Settings of queues. */
  settings: `${RESERVED_PREFIX}settings`,
  /** Pauses of queues. A record is hidden until the end of its pause. */
  pauses: `${RESERVED_PREFIX}pauses`,
  /** Limits of queues. */
  limits: `${RESERVED_PREFIX}limits`,
  /** Buckets of limits of the rate that may not be full. The instant of the enqueue says when a bucket was empty. */
  tokens: `${RESERVED_PREFIX}tokens`,
  /** Bulk runs. A record is hidden until the next slice of its run, or until its time is over. */
  bulkRuns: `${RESERVED_PREFIX}bulk-runs`,
  /** Schedules. A record is hidden until the next run, by the system clock. */
  schedules: `${RESERVED_PREFIX}schedules`,
  /** Subscriptions of queues to topics. */
  subscriptions: `${RESERVED_PREFIX}subscriptions`,
} as const;

/** Whether the name, within a group, is reserved. */
export const isReservedName = (name: string): boolean => name.startsWith(RESERVED_PREFIX);
