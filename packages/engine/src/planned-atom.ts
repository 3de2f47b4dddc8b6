import type { DroppedQueue, RecordedRequest, TaskChange } from './domain/atom.ts';
import type { Instant, PartitionId, Pid } from './domain/ids.ts';
import type { TaskState } from './domain/task.ts';
import type { CachedTask } from './queues/cache/places.ts';
import type { Queue } from './queues/queue.ts';

/** A change that is decided but not committed. `known`: the task before the change, as far as it is in memory. */
export interface PlannedChange {
  readonly queue: Queue;
  readonly change: TaskChange;
  readonly known: CachedTask | undefined;
  /** True: a request without a lease removes the task. */
  readonly isRemoval?: boolean;
  /** True: the task goes because as many wait in its queue as may. */
  readonly isDropped?: boolean;
  /**
   * Set: an attempt failed, and the task waits for the next one, or goes to its dead-letter queue. Or it was interrupted, and
   * does not count.
   */
  readonly failure?: 'retry' | 'dead' | 'interrupted' | undefined;
  /** Set: the task goes to this place, in a later change of the atom. Not of dead letters, whose places are found in the atom. */
  movedTo?: { readonly queue: Queue; readonly pid: Pid };
  /** True: the task comes from the place of such a change. */
  readonly hasMoved?: boolean;
}

/** All changes of one atom before it is committed. */
export interface PlannedAtom {
  readonly partition: PartitionId;
  readonly at: Instant;
  readonly changes: readonly PlannedChange[];
  readonly created?: readonly Queue[];
  readonly dropped?: readonly (DroppedQueue & { readonly queue: Queue })[];
  readonly request?: RecordedRequest | undefined;
}

export const stateBefore = (change: TaskChange): TaskState | undefined =>
  change.kind === 'enqueue' ? undefined : change.before;
export const stateAfter = (change: TaskChange): TaskState | undefined =>
  change.kind === 'dequeue' ? undefined : change.after;
