import type { Stage } from './queues.ts';

/** The task of a worker process, as JSON on its command line. */
export interface WorkerAssignment {
  readonly name: string;
  /** `host:port`. One of them is enough. */
  readonly endpoints: readonly string[];
  /** Number of shards of the crawl. */
  readonly shards: number;
  /** Folder of the segments of the index. */
  readonly segments: string;
  /** Number of concurrent tasks by stage. 0: the worker has no part in this stage. */
  readonly concurrency: Readonly<Record<Stage, number>>;
  /** Minimum time between two requests to the site, in ms. */
  readonly pauseMs: number;
  readonly bounded: boolean;
}

/** Counts since the start of the process. */
export interface WorkerCounts {
  /** Successful attempts by stage. */
  readonly handled: Readonly<Record<Stage, number>>;
  /** Failed attempts, which are retried. */
  readonly failed: number;
  /** Attempts that were not the first of their task. */
  readonly retried: number;
  /** Leases that ended before the task was done. */
  readonly leasesLost: number;
  /** Calls to nodes that were repeated. */
  readonly callsRepeated: number;
}

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'counts'; readonly counts: WorkerCounts }
  /** An error that neither the page nor the site explains. */
  | { readonly kind: 'error'; readonly message: string };

export type ToWorker = { readonly kind: 'stop' };
