import type { LoadResult, PacedResult } from '../measurement.ts';
import type { WorkersLoad, WorkersResult } from '../paper/load/workers-load.ts';

/**
 * How tasks reach the server: in unary calls of the generated stub; through the typed client, which uses a stream; or through
 * that client with direct routing, which goes from there to the node that holds the group.
 */
export type Via = 'unary' | 'client' | 'direct';

/** What is done again and again. */
export type Operation =
  | ({ readonly kind: 'enqueue' } & Batches)
  /** Leases `batch` tasks and completes them; with `replace`, each completion enqueues another task atomically. */
  | ({ readonly kind: 'lease-complete'; readonly replace: boolean } & Batches)
  /** Leases tasks in unary calls, and leaves it at that. */
  | { readonly kind: 'lease'; readonly queue: string; readonly batch: number }
  /** Unary calls of so many callers in turn, a connection each; every call enqueues `batch` tasks to several queues. */
  | {
      readonly kind: 'enqueue-across';
      readonly queue: string;
      readonly queues: number;
      readonly batch: number;
      readonly callers: number;
    }
  /**
   * Updates of one task each through the typed client, over several queues; their (queue, PID) are those of others with
   * the probability `collide`. With `sequential` each begins when the one before it is answered.
   */
  | {
      readonly kind: 'contended';
      readonly queue: string;
      readonly queues: number;
      readonly collide: number;
      readonly sequential: boolean;
    }
  /** RocksDB behind the store port and nothing else; see baselines/raw-store.ts. */
  | { readonly kind: 'store-enqueue'; readonly batch: number }
  | { readonly kind: 'store-lease-complete'; readonly batch: number }
  /** A file that is appended to and synced; see baselines/synced-file.ts. */
  | { readonly kind: 'sync-file' };

/** Calls about `batch` tasks of one queue. */
interface Batches {
  readonly via: Via;
  readonly queue: string;
  /** The calls go to so many queues in turn instead, whose names begin with that of the queue. */
  readonly spread?: number;
  readonly batch: number;
  /** Of each payload. Default 1,000. */
  readonly bytes?: number;
}

/** What a load generator can be asked for. Endpoints are `host:port`; for the store and the file they are the directory. */
export type Job =
  /** Keeps `inFlight` operations going until the time is over, the tasks are done, or there is nothing left to lease. */
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
   * Enqueues, leases and completes tasks of several queues in turn, at a fixed rate whatever the answers take, until the time
   * is over or `stop-paced` comes. The client has its default settings: a call that fails for good is counted.
   */
  | {
      readonly kind: 'paced';
      /** One or several, separated by commas. */
      readonly endpoint: string;
      readonly via: Exclude<Via, 'unary'>;
      readonly queues: readonly string[];
      /** Tasks in one call. */
      readonly batch: number;
      readonly tasksPerS: number;
      readonly ms: number;
    }
  /** Runs workers of several threads each, as the paper's measurements do. */
  | ({ readonly kind: 'workers' } & WorkersLoad)
  /** Ends the paced load of this process. */
  | { readonly kind: 'stop-paced' }
  /** Runs a `Worker` whose handler does nothing until the time is over or so many tasks are completed. */
  | {
      readonly kind: 'worker';
      readonly endpoint: string;
      readonly queue: string;
      readonly concurrency: number;
      readonly ms: number;
      readonly maxTasks: number;
    }
  /** Enqueues a task for a consumer that waits for it, `count` times; latency from the call to the consumer's reply. */
  | {
      readonly kind: 'hand-over';
      readonly endpoint: string;
      readonly via: Via;
      readonly queue: string;
      readonly count: number;
      /** Before each, in ms. */
      readonly pauseMs: number;
    }
  /** Opens so many more long polls, over so many connections, and leaves them open. */
  | {
      readonly kind: 'open-polls';
      readonly endpoint: string;
      readonly via: Via;
      readonly queue: string;
      readonly count: number;
      readonly connections: number;
    }
  /** Enqueues one task and waits for the poll that gets it. */
  | { readonly kind: 'wake-poll'; readonly endpoint: string; readonly queue: string };

/** What comes of each job. */
export interface JobResults {
  readonly loop: LoadResult;
  readonly paced: PacedResult;
  readonly 'stop-paced': null;
  readonly workers: WorkersResult;
  readonly worker: LoadResult;
  readonly 'hand-over': LoadResult;
  readonly 'open-polls': { readonly open: number };
  /** Time from the enqueue to the poll's reply, and how many polls got a task: one. */
  readonly 'wake-poll': { readonly ms: number; readonly woken: number };
}

/** From the parent to the generator. */
export interface JobRequest {
  readonly id: number;
  readonly job: Job;
}

/** From the generator to the parent. */
export type JobReply =
  | { readonly id: number; readonly result: JobResults[Job['kind']] }
  | { readonly id: number; readonly error: string };
