import type { Spread } from '../spread.ts';

/** What every thread of every worker does again and again. */
export type WorkersOperation =
  /** `random`: PIDs the worker chooses, which the node must look up. `assigned`: the node's own, the paper's FIFO enqueue. */
  | { readonly kind: 'enqueue'; readonly pids: 'random' | 'assigned' }
  /** Two calls, one after the other. */
  | { readonly kind: 'lease-dequeue' }
  /** Enqueues in the place of one of so many tasks of the worker's: two updates collide with a probability of 1 / `tasks`. */
  | { readonly kind: 'replace'; readonly tasks: number; readonly locks: Locks };

/**
 * What an update excludes while it is on its way, by locks in the load generator: nothing, updates of the same task, updates
 * of the same queue, or every other update.
 */
export type Locks = 'none' | 'task' | 'queue' | 'all';

/**
 * The load of the paper's measurements: worker processes of several threads. A worker is a connection of its own with that
 * many calls in flight; it uses queues that no other worker uses.
 */
export interface WorkersLoad {
  readonly endpoint: string;
  /** Unary calls of the generated stub, or the typed client, which joins the calls of a worker. */
  readonly via: 'unary' | 'client';
  /** The consistency group of each worker's queues. */
  readonly groups: readonly string[];
  readonly threads: number;
  /** Queues of each worker. The tasks of an update are spread over them; a lease names them all, from another one on each time. */
  readonly queues: number;
  readonly taskBytes: number;
  /** Tasks in one call. */
  readonly batch: number;
  readonly operation: WorkersOperation;
  /** Not measured, in ms. */
  readonly warmUpMs: number;
  /** With the warm-up, in ms. */
  readonly ms: number;
  /** Ends when so many tasks are done. Default: never. */
  readonly maxTasks?: number;
}

export interface WorkersResult {
  /** Done in the time that counts. */
  readonly tasks: number;
  /** Those of the warm-up and those that were late too. */
  readonly allTasks: number;
  readonly elapsedMs: number;
  readonly tasksPerS: number;
  /** Tasks per second in each interval of 250 ms. */
  readonly perInterval: readonly number[];
  /** Of calls, waiting for locks included. Where tasks are leased and dequeued: of leases. */
  readonly latencyMs: Spread;
  /** Calls that the node refused as OVERLOADED, and that were made again. */
  readonly refused: number;
  /** There was nothing left to lease: it ended then. */
  readonly ranDry: boolean;
}

export function queueName(group: string, number: number): string {
  return `${group}#q${number}`;
}
