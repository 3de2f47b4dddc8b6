import type { LoadResult, PacedResult } from '../measurement.ts';
import type { WorkersLoad, WorkersResult } from '../paper/load/workers-load.ts';

/**
 * How tasks reach the server: in unary calls of the generated stub; through the typed client, which uses a stream; or through
 * that client with direct routing to the node that holds the group.
 */
export type Via = 'unary' | 'client' | 'direct';

/** The operation that a load repeats. */
export type Operation =
  | ({ readonly kind: 'enqueue' } & Batches)
  /** Leases `batch` tasks and completes them; with `replace`, each completion enqueues another task atomically. */
  | ({ readonly kind: 'lease-complete'; readonly replace: boolean } & Batches)
  /** Leases tasks in unary calls without completing them. */
  | { readonly kind: 'lease'; readonly queue: string; readonly batch: number }
  /** Unary calls of `callers` callers in turn, each with its connection. A call enqueues `batch` tasks to several queues. */
  | {
      readonly kind: 'enqueue-across';
      readonly queue: string;
      readonly queues: number;
      readonly batch: number;
      readonly callers: number;
    }
  /**
   * Updates of one task each through the typed client, over several queues. With probability `collide` an update has a PID that
   * others have, too. With `sequential` each update begins when the previous one is answered.
   */
  | {
      readonly kind: 'contended';
      readonly queue: string;
      readonly queues: number;
      readonly collide: number;
      readonly sequential: boolean;
    }
  /** Only RocksDB behind the store port; see baselines/raw-store.ts. */
  | { readonly kind: 'store-enqueue'; readonly batch: number }
  | { readonly kind: 'store-lease-complete'; readonly batch: number }
  /** A file that is appended to and synced; see baselines/synced-file.ts. */
  | { readonly kind: 'sync-file' };

/** Calls about `batch` tasks of one queue. */
interface Batches {
  readonly via: Via;
  readonly queue: string;
  /** If set, the calls go to this number of queues in turn, whose names begin with `queue`. */
  readonly spread?: number;
  /** If set, the queue is sharded, and the calls go through the typed client. Only for enqueues and leases of single tasks. */
  readonly shards?: number;
  readonly batch: number;
  /** Bytes of each payload. Default 1,000. */
  readonly bytes?: number;
  /** If set, new tasks have limit keys, this number of different ones. */
  readonly limitKeys?: number | undefined;
}

/** The jobs of a load generator. Endpoints are `host:port`; for the store and the file they are the directory. */
export type Job =
  /** Keeps `inFlight` operations in progress until the time is over, the tasks are done, or no task is left. */
  | {
      readonly kind: 'loop';
      readonly endpoint: string;
      readonly operation: Operation;
      readonly inFlight: number;
      readonly ms: number;
      readonly maxTasks?: number;
      /** After each operation; see `LoopOptions`. */
      readonly pauseMs?: number;
    }
  /**
   * Enqueues, leases and completes tasks of several queues in turn until the time is over or `stop-paced` arrives. The rate is
   * fixed and does not depend on the answers. The client has its default settings. Calls that fail after all retries are counted.
   */
  | {
      readonly kind: 'paced';
      /** One endpoint, or several separated by commas. */
      readonly endpoint: string;
      readonly via: Exclude<Via, 'unary'>;
      readonly queues: readonly string[];
      /** Tasks in one call. */
      readonly batch: number;
      readonly tasksPerS: number;
      readonly ms: number;
    }
  /** Runs workers with several threads each, as in the paper's measurements. */
  | ({ readonly kind: 'workers' } & WorkersLoad)
  /** Ends the paced load of this process. */
  | { readonly kind: 'stop-paced' }
  /** Runs a `Worker` whose handler does nothing until the time is over or `maxTasks` tasks are completed. */
  | {
      readonly kind: 'worker';
      readonly endpoint: string;
      readonly queue: string;
      readonly concurrency: number;
      readonly ms: number;
      readonly maxTasks: number;
    }
  /** Enqueues a task for a waiting consumer, `count` times. Latencies are from the call to the consumer's reply. */
  | {
      readonly kind: 'hand-over';
      readonly endpoint: string;
      readonly via: Via;
      readonly queue: string;
      readonly count: number;
      /** Pause before each enqueue, in ms. */
      readonly pauseMs: number;
    }
  /** Opens `count` more long polls over `connections` connections, and leaves them open. */
  | {
      readonly kind: 'open-polls';
      readonly endpoint: string;
      readonly via: Via;
      readonly queue: string;
      readonly count: number;
      readonly connections: number;
    }
  /** Backs a partition up again and again until the time is over. */
  | { readonly kind: 'backup'; readonly endpoint: string; readonly partition: number; readonly ms: number }
  /** Enqueues one task and waits for the poll that gets it. */
  | { readonly kind: 'wake-poll'; readonly endpoint: string; readonly queue: string };

/** The result of each job. */
export interface JobResults {
  readonly loop: LoadResult;
  readonly paced: PacedResult;
  readonly 'stop-paced': null;
  readonly workers: WorkersResult;
  readonly worker: LoadResult;
  readonly 'hand-over': LoadResult;
  readonly 'open-polls': { readonly open: number };
  /** Bytes of rows and log entries. `cpuMs`: CPU time of the load generator. */
  readonly backup: { readonly bytes: number; readonly elapsedMs: number; readonly cpuMs: number };
  /** Time from the enqueue to the poll's reply, and the number of polls that got a task, which should be one. */
  readonly 'wake-poll': { readonly ms: number; readonly woken: number };
}

/** A message from the parent to the generator. */
export interface JobRequest {
  readonly id: number;
  readonly job: Job;
}

/** A message from the generator to the parent. */
export type JobReply =
  | { readonly id: number; readonly result: JobResults[Job['kind']] }
  | { readonly id: number; readonly error: string };
