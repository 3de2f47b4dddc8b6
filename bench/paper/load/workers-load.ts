import type { Spread } from '../spread.ts';

/** The operation that every thread of every worker repeats. */
export type WorkersOperation =
  /** `random`: the worker chooses PIDs, which the node must look up. `assigned`: the node assigns them (FIFO in the paper). */
  | { readonly kind: 'enqueue'; readonly pids: 'random' | 'assigned' }
  /** Leases tasks, then dequeues them in a second call. */
  | { readonly kind: 'lease-dequeue' }
  /** Replaces one of `tasks` tasks of the worker, so two updates collide with probability 1 / `tasks`. */
  | { readonly kind: 'replace'; readonly tasks: number; readonly locks: Locks };

/**
 * The updates that wait for an update in progress, by locks in the load generator: none, updates of the same task, updates of
 * the same queue, or all.
 */
export type Locks = 'none' | 'task' | 'queue' | 'all';

/**
 * The load of the paper's measurements: worker processes with several threads. Here a worker is a connection with that number of
 * calls in flight. It uses queues of its own.
 */
export interface WorkersLoad {
  readonly endpoint: string;
  /** Unary calls of the generated stub, or the typed client, which joins the calls of a worker. */
  readonly via: 'unary' | 'client';
  /** The consistency group of each worker's queues. */
  readonly groups: readonly string[];
  readonly threads: number;
  /**
   * Queues of each worker. The tasks of an update are spread over them. A lease names all of them, each time with a new first.
   */
  readonly queues: number;
  readonly taskBytes: number;
  /** Number of tasks in one call. */
  readonly batch: number;
  readonly operation: WorkersOperation;
  /** Duration of the warm-up, in ms. */
  readonly warmUpMs: number;
  /** Total duration with the warm-up, in ms. */
  readonly ms: number;
  /** The load ends when this number of tasks is done. Default: no limit. */
  readonly maxTasks?: number;
}

export interface WorkersResult {
  /** Tasks done in the measured time. */
  readonly tasks: number;
  /** All tasks, including those of the warm-up and late ones. */
  readonly allTasks: number;
  readonly elapsedMs: number;
  readonly tasksPerS: number;
  /** Tasks per second in each interval of 250 ms. */
  readonly perInterval: readonly number[];
  /** Latency of calls, including waits for locks. For `lease-dequeue`: of leases. */
  readonly latencyMs: Spread;
  /** Number of calls that the node refused as OVERLOADED and that were retried. */
  readonly refused: number;
  /** True if the load ended because no task was left. */
  readonly ranDry: boolean;
}

export function queueName(group: string, number: number): string {
  return `${group}#q${number}`;
}
