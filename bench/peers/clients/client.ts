/** Number of tasks in one call of the batch workloads. */
export const BATCH = 50;

/** Runs an operation once. Resolves with its number of tasks. 0: no task is left. */
type Operate = () => Promise<number>;

/** A consumer of the library. */
export interface Consumer {
  /** Takes no more tasks. Resolves when all taken tasks are done or released. */
  stop(): Promise<void>;
}

/** The way in which a system runs a workload. */
export type Work =
  /** An operation that is repeated, with many in progress. */
  | { readonly kind: 'loop'; readonly how: string; readonly confirmed: boolean; readonly operate: Operate }
  /** A consumer that reports the tasks that it has completed, as far as it knows. */
  | {
      readonly kind: 'consume';
      readonly how: string;
      readonly confirmed: boolean;
      start(completed: (tasks: number) => void): Promise<Consumer>;
      /** Number of tasks that the server still has. Needed if completions are not confirmed. */
      left?(): Promise<number>;
    };

/** A system with its own client library. */
export interface PeerClient extends AsyncDisposable {
  /** Version of the client library, and of the server if only the client knows it. */
  readonly version: string;
  readonly enqueue: Work & { readonly kind: 'loop' };
  readonly enqueueMany: Work & { readonly kind: 'loop' };
  /** Undefined if the library has no such calls; this also holds for the following ones. */
  readonly leaseComplete?: Work;
  readonly worker?: Work;
  readonly leaseCompleteMany?: Work;
  /** Describes how a consumer waits for a task. */
  readonly waiting: string;
  /** Enqueues one task to the queue of the waiting consumer, which is otherwise empty. */
  enqueueToWaiting(): Promise<void>;
  /** Starts a consumer that takes, reports and completes one task at a time. Resolves when it is about to wait. */
  wait(received: () => void): Promise<Consumer>;
}

/** Connects to a server at `host:port` and creates an empty queue. */
export type Connect = (endpoint: string) => Promise<PeerClient>;

export function hostAndPort(endpoint: string): { readonly host: string; readonly port: number } {
  const at = endpoint.lastIndexOf(':');
  return { host: endpoint.slice(0, at), port: Number(endpoint.slice(at + 1)) };
}
