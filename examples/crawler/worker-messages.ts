import type { Stage } from './queues.ts';

/** What a worker process is told on its command line, as JSON. */
export interface WorkerAssignment {
  readonly name: string;
  /** `host:port`; any of them will do. */
  readonly endpoints: readonly string[];
  /** Of the crawl. */
  readonly shards: number;
  /** Folder of the index's segments. */
  readonly segments: string;
  /** Tasks worked on at once, by stage; 0: none. */
  readonly concurrency: Readonly<Record<Stage, number>>;
  /** Least time between two requests to the site, in ms. */
  readonly pauseMs: number;
  readonly bounded: boolean;
}

/** Since the process began. */
export interface WorkerCounts {
  /** Attempts that went well, by stage. */
  readonly handled: Readonly<Record<Stage, number>>;
  /** Attempts that failed and were left to be tried again. */
  readonly failed: number;
  /** Attempts at tasks that had been attempted before. */
  readonly retried: number;
  /** Leases that ended before their tasks were done. */
  readonly leasesLost: number;
  /** Calls to the node that had to be repeated. */
  readonly callsRepeated: number;
}

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'counts'; readonly counts: WorkerCounts }
  /** An error that is not a page's or the site's fault. */
  | { readonly kind: 'error'; readonly message: string };

export type ToWorker = { readonly kind: 'stop' };
