/** Tasks that one call of the batch workloads takes. */
export const BATCH = 50;

/** Does an operation once; resolves with the number of tasks it did. 0: there are none left. */
type Operate = () => Promise<number>;

/** A consumer that the library runs. */
export interface Consumer {
  /** Takes no more, and resolves when what it took is done or given back. */
  stop(): Promise<void>;
}

/** How a system does a workload. */
export type Work =
  /** Called again and again, many at once. */
  | { readonly kind: 'loop'; readonly how: string; readonly confirmed: boolean; readonly operate: Operate }
  /** Told the tasks it completed, as far as it knows. */
  | {
      readonly kind: 'consume';
      readonly how: string;
      readonly confirmed: boolean;
      start(completed: (tasks: number) => void): Promise<Consumer>;
      /** Tasks that the server still has: the only way to know where completions are not confirmed. */
      left?(): Promise<number>;
    };

/** A system under load, as its own client library drives it. */
export interface PeerClient extends AsyncDisposable {
  /** Of the client library, and of the server where only the client can tell. */
  readonly version: string;
  readonly enqueue: Work & { readonly kind: 'loop' };
  readonly enqueueMany: Work & { readonly kind: 'loop' };
  /** Each undefined where the library has nothing of the kind. */
  readonly leaseComplete?: Work;
  readonly worker?: Work;
  readonly leaseCompleteMany?: Work;
  /** How a consumer waits for a task. */
  readonly waiting: string;
  /** Enqueues one into the queue where such a consumer waits: another one, which is otherwise empty. */
  enqueueToWaiting(): Promise<void>;
  /** A consumer that takes tasks one at a time, says so, and completes them; resolves when it is about to wait. */
  wait(received: () => void): Promise<Consumer>;
}

/** Connects to a server, at `host:port`, and makes an empty queue. */
export type Connect = (endpoint: string) => Promise<PeerClient>;

export function hostAndPort(endpoint: string): { readonly host: string; readonly port: number } {
  const at = endpoint.lastIndexOf(':');
  return { host: endpoint.slice(0, at), port: Number(endpoint.slice(at + 1)) };
}
