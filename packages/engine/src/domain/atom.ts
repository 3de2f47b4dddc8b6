import type { QueueName } from '@taskmaster/proto';
import type { EventsOfAtom } from './events.ts';
import type { Instant, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
import { lastOf, type TaskState } from './task.ts';

/** One change of one task. `before`, the earlier state, tells which rows and counters change. */
export type TaskChange =
  | {
      readonly kind: 'enqueue';
      readonly queueId: QueueId;
      readonly pid: Pid;
      readonly after: TaskState;
      readonly data: Uint8Array | undefined;
    }
  | {
      readonly kind: 'change';
      readonly queueId: QueueId;
      readonly pid: Pid;
      readonly before: TaskState;
      readonly after: TaskState;
      /** The new payload; undefined if it does not change. */
      readonly data: Uint8Array | undefined;
    }
  | {
      readonly kind: 'dequeue';
      readonly queueId: QueueId;
      readonly pid: Pid;
      readonly before: TaskState;
      /** True if the task counts as completed; false if it is moved to its dead-letter queue. */
      readonly completed: boolean;
    };

/** A task becomes the last one of its queue with an order key, or is it no longer. */
export interface LastChange {
  readonly orderKey: string;
  readonly pid: Pid;
  readonly isLast: boolean;
  /** True: the task is new. The one before it, if there is one, has been told of it before in the same atom. */
  readonly isNew: boolean;
}

/** What a change means for the last tasks of order keys. Nothing, for most changes: then it makes no object. */
export function lastChanges(change: TaskChange): readonly LastChange[] {
  const before = change.kind === 'enqueue' ? undefined : lastOf(change.before.history);
  const after = change.kind === 'dequeue' ? undefined : lastOf(change.after.history);
  if (before === after) return NO_CHANGES;
  const { pid } = change;
  const isNew = change.kind === 'enqueue';
  const changes: LastChange[] = [];
  if (before !== undefined) changes.push({ orderKey: before, pid, isLast: false, isNew });
  if (after !== undefined) changes.push({ orderKey: after, pid, isLast: true, isNew });
  return changes;
}

const NO_CHANGES: readonly LastChange[] = [];

/**
 * The last task after a change. In an atom, the next one may come before or after the one that is it no longer.
 * @param before the last one before. If it is not known: the task of the change.
 */
export const lastAfter = ({ pid, isLast }: LastChange, before: Pid | undefined): Pid | undefined =>
  isLast ? pid : before === pid ? undefined : before;

/** A queue that this atom creates. */
export interface CreatedQueue {
  readonly queueId: QueueId;
  readonly name: QueueName;
}

/** A generation of a queue that this atom ends. */
export interface DroppedQueue {
  readonly queueId: QueueId;
  /** True if the reaper must delete rows of it. */
  readonly reap: boolean;
}

/** The outcome that a repeated request gets. */
export interface RecordedRequest {
  readonly id: string;
  /** Bytes as a latin1 string, which takes the least memory: many outcomes are remembered. */
  readonly outcome: string;
}

/**
 * One atomic commit (the paper, 5.3). The paper's (queue, delta) triples follow from the changes, which have the states before
 * and after; see QueueLedger.
 */
export interface ApplyAtom {
  readonly partition: PartitionId;
  readonly ticket: Ticket;
  readonly at: Instant;
  readonly created: readonly CreatedQueue[];
  readonly changes: readonly TaskChange[];
  readonly dropped: readonly DroppedQueue[];
  readonly request: RecordedRequest | undefined;
  /** What has happened in the groups of the partition that have readers. Undefined: no group has one. */
  readonly events?: EventsOfAtom | undefined;
}
