import type { ChannelCredentials } from '@grpc/grpc-js';
import { type Duration, durationMs } from './duration.ts';
import type { TaskMasterError } from './errors.ts';
import { defaultRetryPolicy, type RetryOptions, type RetryPolicy } from './retry.ts';

/** What every call takes. */
export interface CallOptions {
  /** Gives the call up: it rejects with `CancelledError`. What was sent already may still take effect. */
  readonly signal?: AbortSignal | undefined;
  /** Longest time for the call with all its repetitions. Default: the client's `timeout`. */
  readonly timeout?: Duration | undefined;
}

/** What calls that change tasks take. */
export interface UpdateOptions extends CallOptions {
  /**
   * Makes the call safe to repeat from outside the client too: the node applies a request id once within its window (2
   * minutes by default). At most 64 bytes. Default: 16 random bytes for each call, for the client's own repetitions.
   */
  readonly requestId?: Uint8Array | string | undefined;
}

/** How a worker, or a client with its workers, ends. */
export interface StopOptions {
  /**
   * How long handlers may go on; then their signals are aborted, and tasks whose handlers do not end are given back a second
   * later, without counting the attempt. Default 30 s.
   */
  readonly timeout?: Duration | undefined;
}

export const DEFAULT_STOP_TIMEOUT = '30s';

/** Of any client, over gRPC or in process. */
export interface ClientOptions {
  /** Default deadline of every call, repetitions included; a lease's waiting time comes on top. Default 10 s. */
  readonly timeout?: Duration | undefined;
  /** When failed calls are repeated. */
  readonly retry?: RetryOptions | undefined;
  /** What this client calls itself when it leases tasks; at most 256 bytes. Default: none. */
  readonly workerLabel?: string | undefined;
  /** Called before the wait for each repetition of a call. */
  readonly onCallRetried?: ((event: RetryEvent) => void) | undefined;
}

/** A call failed and will be repeated. */
export interface RetryEvent {
  readonly operation: string;
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly error: TaskMasterError;
  /** Wait before the next attempt, in ms. */
  readonly afterMs: number;
  /** Since the call began, in ms. */
  readonly elapsedMs: number;
}

/**
 * Keys and certificates, in PEM. Plain data, so that the thread that renews leases can connect too. Nodes and proxies speak
 * plain text themselves: for endpoints behind something that ends TLS.
 */
export interface TlsOptions {
  /** Certificate authorities to trust. Default: Node's. */
  readonly ca?: Uint8Array | undefined;
  /** This client's certificate chain and its key, where the server asks for them. */
  readonly cert?: Uint8Array | undefined;
  readonly key?: Uint8Array | undefined;
  /** Name expected in the server's certificate. Default: the endpoint's host. */
  readonly serverName?: string | undefined;
}

/**
 * Where calls go.
 * - `any`: to the endpoints, in turn. A node that answers that another one holds the group is heeded: later calls of the
 *   group go there.
 * - `direct`: straight to the node that holds the group, of which the client keeps a table; to the endpoints while the holder
 *   is not known or cannot be reached. Saves the way over a proxy. Nodes must be reachable at the addresses that they tell
 *   each other (`taskmaster members` shows them), in plain text: with `tls` calls go to the endpoints.
 */
export type Routing = 'any' | 'direct';

/** How to reach nodes or proxies. */
export interface GrpcOptions {
  /** `host:port`, one or several. Calls go to those that are up, in turn. */
  readonly endpoints: string | readonly string[];
  /** Which of the endpoints, or which other nodes of their cluster, calls go to. Default `any`. */
  readonly routing?: Routing | undefined;
  /** Encrypts, towards something in front of nodes that ends TLS. Default: plain text. */
  readonly tls?: TlsOptions | undefined;
  /**
   * Credentials made by hand, instead of `tls`. They cannot be handed to another thread, so leases are renewed on the
   * calling thread: a handler that blocks it longer than the lease loses the lease.
   */
  readonly credentials?: ChannelCredentials | undefined;
  /** Longest wait in `connect` for the first endpoint. Default 10 s. */
  readonly connectTimeout?: Duration | undefined;
  /** Joins concurrent updates and leases into the messages of one stream for each connection. Default true. */
  readonly useStream?: boolean | undefined;
  /** Most unanswered calls on one stream; more wait their turn. Waiting leases do not count. Default 4,096. */
  readonly maxCallsInFlight?: number | undefined;
  /** Called when an endpoint, or a node that calls are routed to, comes up, the first time too, and when it is lost. */
  readonly onReconnected?: ((event: ReconnectEvent) => void) | undefined;
}

/** An endpoint came up or was lost. */
export interface ReconnectEvent {
  readonly endpoint: string;
  readonly state: 'lost' | 'connected';
  /** Why it was lost. */
  readonly error?: TaskMasterError | undefined;
}

/** Options of `connect`. */
export interface ConnectOptions extends GrpcOptions, ClientOptions {}

/** Client options, read and with defaults. */
export interface ClientSettings {
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly workerLabel: string;
  readonly onCallRetried: ((event: RetryEvent) => void) | undefined;
}

export function clientSettings(options: ClientOptions): ClientSettings {
  const retry = { ...defaultRetryPolicy, ...withoutUndefined(options.retry ?? {}) };
  if (!Number.isInteger(retry.maxAttempts) || retry.maxAttempts < 1) {
    throw new TypeError(`retry.maxAttempts: ${retry.maxAttempts} is not a whole number from 1`);
  }
  const worker: unknown = options.workerLabel ?? '';
  if (typeof worker !== 'string') throw new TypeError('workerLabel: must be a string');
  return {
    timeoutMs: durationMs(options.timeout ?? '10s', 'timeout'),
    retry,
    workerLabel: worker,
    onCallRetried: options.onCallRetried,
  };
}

export function endpointList(endpoints: string | readonly string[]): readonly [string, ...string[]] {
  const given: unknown = typeof endpoints === 'string' ? endpoints.split(',') : endpoints;
  const list = Array.isArray(given) ? given.map((one: unknown) => (typeof one === 'string' ? one.trim() : '')) : [];
  const [first, ...rest] = list;
  if (first === undefined || list.includes('')) {
    throw new TypeError('endpoints: at least one host:port is needed, and none may be empty');
  }
  return [first, ...rest];
}

function withoutUndefined<T extends object>(options: T): { [Key in keyof T]?: NonNullable<T[Key]> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]?: NonNullable<T[Key]>;
  };
}

/** Runs a caller's hook. What it throws is an error of the caller's own, and must not change what the client does. */
export function callHook<Args extends readonly unknown[]>(
  hook: ((...args: Args) => void) | undefined,
  ...args: Args
): void {
  try {
    hook?.(...args);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
