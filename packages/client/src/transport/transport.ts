import type { Method } from '@taskmaster/proto';
import type { Routing, TlsOptions } from '../values/options.ts';

export { isTaskMasterError, withMaybeApplied } from '../values/errors.ts';
export { errorFromWire } from './wire-errors.ts';

export interface TransportCallOptions {
  /**
   * Cancels the call, which rejects with `CancelledError`. A cancelled lease settles when no more tasks can be leased to it. It
   * may still resolve with tasks, and the caller must release them.
   */
  readonly signal?: AbortSignal | undefined;
  /** Timeout in ms, after which the call rejects with `DeadlineExceededError`. The waiting time of a request is added to it. */
  readonly timeoutMs?: number | undefined;
  /** The span of the caller in the format of W3C, for the log of the node. Streamed requests name it, too. Default: none. */
  readonly traceparent?: string | undefined;
}

/** How another thread can reach the same engine. Plain data that can be sent to the thread. */
export interface Reachable {
  readonly endpoints: readonly string[];
  readonly cluster?: string | undefined;
  readonly tls: TlsOptions | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly insecure?: boolean | undefined;
  readonly httpProxy?: boolean | undefined;
  /** Default `any`. */
  readonly routing?: Routing;
  /** Absolute path of the program of the thread. Default: the file of this package. */
  readonly renewalThread?: string | undefined;
}

/**
 * The way to an engine: over gRPC, or in the same process. A call is one attempt; the client adds repetitions. Calls reject only
 * with a `TaskMasterError`.
 */
export interface Transport extends AsyncDisposable {
  unary<Q extends object, R>(method: Method<Q, R>, request: NoInfer<Q>, options?: TransportCallOptions): Promise<R>;
  /**
   * Makes a call with a streamed answer. It begins with the first call of `next`. `return` and the signal give it up. There is no
   * timeout.
   */
  stream<Q extends object, R>(
    method: Method<Q, R>,
    request: NoInfer<Q>,
    options?: Pick<TransportCallOptions, 'signal'>,
  ): AsyncIterableIterator<R, undefined>;
  /** True: the engine is in this process. It belongs to no cluster and has no rules of access. Default false. */
  readonly isInProcess?: boolean;
  /** For the thread that renews leases. Undefined: only this thread can reach the engine. */
  readonly reachableFrom: Reachable | undefined;
  /**
   * Whether the repetition of a call would go to another node, so that the retry delay of the first node does not apply. Default
   * false.
   */
  readonly canTryElsewhere?: boolean;
  /** Whether calls can be sent now. False: no node can be reached, and calls wait until one can. Default true. */
  readonly isUp?: boolean;
  /** Rejects calls in flight with `CancelledError` and closes connections. */
  close(): Promise<void>;
}
