import type { QueueName } from '@taskmaster/proto';
import type { Instant, PartitionId, Pid, QueueId, TaskState, Ticket } from '@taskmaster/server/domain';

/** One change of one task. `before` is what the task was: it says which rows and which counters change. */
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
      /** Only where the payload is replaced. */
      readonly data: Uint8Array | undefined;
    }
  | {
      readonly kind: 'dequeue';
      readonly queueId: QueueId;
      readonly pid: Pid;
      readonly before: TaskState;
      /** Whether it counts as completed; a task moved to its dead-letter queue does not. */
      readonly completed: boolean;
    };

/** A queue that comes into being with this atom. */
export interface CreatedQueue {
  readonly queueId: QueueId;
  readonly name: QueueName;
}

/** A generation that ends with this atom. */
export interface DroppedQueue {
  readonly queueId: QueueId;
  /** Whether rows are left that the reaper must delete. */
  readonly reap: boolean;
}

/** The outcome that a repeated request gets. */
export interface RecordedRequest {
  readonly id: string;
  /** Bytes held as latin1: many are remembered, and a string is the smallest thing that holds bytes. */
  readonly outcome: string;
}

/**
 * One committed change (the paper, 5.3): entirely or not at all. The paper's (queue, delta) triples follow from the
 * changes, each of which knows the state before and after; see QueueLedger.
 */
export interface ApplyAtom {
  readonly partition: PartitionId;
  readonly ticket: Ticket;
  readonly at: Instant;
  readonly created: readonly CreatedQueue[];
  readonly changes: readonly TaskChange[];
  readonly dropped: readonly DroppedQueue[];
  readonly request: RecordedRequest | undefined;
}
