import type { ChannelCredentials } from '@grpc/grpc-js';
import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import { type Duration, durationMs } from './duration.ts';
import type { TaskMasterError } from './errors.ts';
import { inContext } from './hooks.ts';
import { assertKnown, type OptionNames } from './known-options.ts';
import { type RetryOptions, type RetryPolicy, retryPolicy } from './retry.ts';

/** Options of every call. */
export interface CallOptions {
  /** Cancels the call, which rejects with `CancelledError`. A request that was sent may still be applied. */
  readonly signal?: AbortSignal | undefined;
  /** Longest time of the call with its repetitions. Default: the client's `timeout`. */
  readonly timeout?: Duration | undefined;
  /** Attempts of the call, the first one included. Default: the client's `retry.maxAttempts`. */
  readonly maxAttempts?: number | undefined;
}

/** Options of calls that change tasks. */
export interface UpdateOptions extends CallOptions {
  /**
   * Makes the call safe to repeat for the caller too: the node applies a request id once within its window (2 minutes by
   * default). At most 64 bytes. Default: 16 random bytes per call, which make the repetitions of the client safe.
   */
  readonly requestId?: Uint8Array | string | undefined;
}

/** Options of the stop of a worker, or of a client with its workers. */
export interface StopOptions {
  /**
   * How long running handlers may go on. Then their signals are aborted. Tasks of handlers that still run a second later are
   * released without counting the attempt. Default 30 s.
   */
  readonly timeout?: Duration | undefined;
}

export const DEFAULT_STOP_TIMEOUT = '30s';

/** Options of any client, over gRPC or in the same process. */
export interface ClientOptions {
  /** Default timeout of a call with its repetitions. The `wait` of a lease is added to it. Default 10 s. */
  readonly timeout?: Duration | undefined;
  /** When the client repeats failed calls. */
  readonly retry?: RetryOptions | undefined;
  /** Label of this client in its leases, at most 256 bytes. Default: none. */
  readonly workerLabel?: string | undefined;
  /** Called when a call has failed and will be repeated. */
  readonly onCallRetried?: ((event: RetryEvent) => void) | undefined;
  /**
   * Spans and metrics of OpenTelemetry for this client and its workers. False: none, and no context in the headers of tasks.
   * Default: if an SDK is registered, also later, it gets them.
   */
  readonly telemetry?: TelemetryOptions | false | undefined;
}

/** Where spans and metrics go. */
export interface TelemetryOptions {
  /** Default: the provider that is registered, if there is one. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Default: the provider that is registered, if there is one. */
  readonly meterProvider?: MeterProvider | undefined;
}

/** A failed call that will be repeated. */
export interface RetryEvent {
  /** Name of the call in the protocol: `updateTasks`. */
  readonly operation: string;
  /** Number of the failed attempt, from 1. */
  readonly attempt: number;
  readonly error: TaskMasterError;
  /** Wait before the next attempt, in ms. */
  readonly afterMs: number;
  /** Time since the start of the call, in ms. */
  readonly elapsedMs: number;
}

/**
 * TLS to nodes and proxies. Keys and certificates are PEM, as bytes or in files. Files are read again when they change. The
 * options are plain data, so that the thread that renews leases can connect too.
 */
export interface TlsOptions {
  /** Trusted certificate authorities. Default: the authorities of Node. */
  readonly ca?: Uint8Array | undefined;
  /** File of trusted certificate authorities, instead of `ca`. */
  readonly caFile?: string | undefined;
  /** Certificate chain and key of this client, if the server asks for them. */
  readonly cert?: Uint8Array | undefined;
  readonly key?: Uint8Array | undefined;
  /** Files of the certificate chain and the key, instead of `cert` and `key`. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Expected name in the certificate of the server. Default: the host of the endpoint. */
  readonly serverName?: string | undefined;
}

/**
 * Where calls go.
 * - `any`: to the endpoints, in turn. If a node names another node as the holder of a group, later calls for this group go to the
 *   holder.
 * - `direct`: to the holder of the group, without a proxy on the way. The client keeps a table of holders. While a holder is
 *   unknown or unreachable, calls go to the endpoints. Nodes must be reachable at the addresses that `taskmaster members` shows.
 *   With `tls` their certificates must have these addresses, or `serverName`.
 */
export type Routing = 'any' | 'direct';

/** The token of a client. Default: TASKMASTER_TOKEN, or the file that TASKMASTER_TOKEN_FILE names. */
export interface TokenOptions {
  /** A token or JWT, or a function that is called for each call and returns one. A function must not take long. */
  readonly token?: string | (() => string) | undefined;
  /** File with the token, instead of `token`. It is read again when it changes. */
  readonly tokenFile?: string | undefined;
  /** Allows to send the token in plain text to other machines. Default false. */
  readonly insecure?: boolean | undefined;
}

/** How to reach nodes or proxies. */
export interface GrpcOptions extends TokenOptions {
  /** `host:port` of one or several nodes or proxies. Calls go to those that are up, in turn. */
  readonly endpoints: string | readonly string[];
  /**
   * Id of the cluster, as `taskmaster whoami` shows it: programs of another one get no calls. Default: any cluster, but
   * if the endpoints belong to several, calls end with `WrongClusterError`.
   */
  readonly cluster?: string | undefined;
  /** Where calls go. Default `any`. */
  readonly routing?: Routing | undefined;
  /** TLS to the nodes and proxies. Default: plain text. */
  readonly tls?: TlsOptions | undefined;
  /**
   * gRPC channel credentials instead of `tls`. They cannot be sent to another thread, so this thread renews the leases: a handler
   * that blocks it for longer than the lease duration loses its lease.
   */
  readonly credentials?: ChannelCredentials | undefined;
  /**
   * Whether connections go through the proxy that `grpc_proxy`, `https_proxy` or `http_proxy` names, except to this machine and
   * to what `no_grpc_proxy` or `no_proxy` lists. Default true.
   */
  readonly httpProxy?: boolean | undefined;
  /**
   * The program of the thread that renews leases, as a path or a `file:` URL, if a bundler has moved it. Default: the file
   * `renewer-thread` beside the client's module or bundle. False: the main thread renews leases.
   */
  readonly renewalThread?: string | URL | false | undefined;
  /** Longest wait of `connect` for the first connection. Default 10 s. */
  readonly connectTimeout?: Duration | undefined;
  /** Whether updates and leases go over one stream per connection, several in a message. Default true. */
  readonly useStream?: boolean | undefined;
  /** Largest number of unanswered calls on one stream, without waiting leases. Further calls wait. Default 4,096. */
  readonly maxCallsInFlight?: number | undefined;
  /** Called when the connection to an endpoint or to a holder is up, also for the first time, and when it is lost. */
  readonly onReconnected?: ((event: ReconnectEvent) => void) | undefined;
}

/** The connection to an endpoint or to a holder is up or lost. */
export interface ReconnectEvent {
  readonly endpoint: string;
  readonly state: 'lost' | 'connected';
  /** Why it was lost. */
  readonly error?: TaskMasterError | undefined;
}

/** Options of `connect`. */
export interface ConnectOptions extends GrpcOptions, ClientOptions {}

/** Client options with defaults. */
export interface ClientSettings {
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly workerLabel: string;
  readonly onCallRetried: ((event: RetryEvent) => void) | undefined;
  readonly telemetry: TelemetryOptions | false | undefined;
}

/** The options with defaults. @throws TypeError */
export function clientSettings(options: ClientOptions): ClientSettings {
  assertKnown('options of the client', options, clientNames);
  const { telemetry } = options;
  assertTelemetry(telemetry);
  const workerLabel: unknown = options.workerLabel ?? '';
  if (typeof workerLabel !== 'string') throw new TypeError('workerLabel: must be a string');
  return {
    timeoutMs: durationMs(options.timeout ?? '10s', 'timeout'),
    retry: retryPolicy(options.retry),
    workerLabel,
    onCallRetried: inContext('onCallRetried', options.onCallRetried),
    telemetry,
  };
}

/** @throws TypeError for options with other names. */
export function assertTelemetry(telemetry: TelemetryOptions | false | undefined): void {
  if (telemetry !== false) assertKnown('telemetry', telemetry, telemetryNames);
}

/** The endpoints of an option as a list. @throws TypeError if there is none, or one is no address. */
export function endpointList(endpoints: string | readonly string[]): readonly [string, ...string[]] {
  const given: unknown = typeof endpoints === 'string' ? endpoints.split(',') : endpoints;
  const list = Array.isArray(given) ? given.map((one: unknown) => (typeof one === 'string' ? one.trim() : '')) : [];
  const [first, ...rest] = list;
  if (first === undefined || list.includes('')) {
    throw new TypeError('endpoints: at least one host:port is needed, and none may be empty');
  }
  for (const endpoint of list) assertEndpoint(endpoint);
  return [first, ...rest];
}

/** Addresses that gRPC resolves by itself. */
const GRPC_SCHEME = /^(dns|unix|unix-abstract|ipv4|ipv6):/;
const HOST_AND_PORT = /^(\[[\da-f:.]+(?:%[^\]\s]+)?\]|[^\s:/[\]@]+):(\d{1,5})$/i;

/** Without this check a call to a wrong address fails only after its whole timeout. @throws TypeError */
function assertEndpoint(endpoint: string): void {
  if (GRPC_SCHEME.test(endpoint)) return;
  const port = Number(HOST_AND_PORT.exec(endpoint)?.[2] ?? Number.NaN);
  if (port >= 1 && port <= 65_535) return;
  const url = /^(\w+):\/\/([^/]*)/.exec(endpoint);
  const hint =
    url === null
      ? 'write it as host:port, an IPv6 address as [::1]:port'
      : `it is a URL; write ${url[2] || 'host:port'}${url[1] === 'https' ? ', and give the option tls' : ''}`;
  throw new TypeError(`endpoints: '${endpoint}' is not host:port; ${hint}`);
}

export const callNames: OptionNames<CallOptions> = { signal: true, timeout: true, maxAttempts: true };
export const updateNames: OptionNames<UpdateOptions> = { ...callNames, requestId: true };
export const stopNames: OptionNames<StopOptions> = { timeout: true };

/** @throws TypeError */
export function stopTimeoutMs(options: StopOptions): number {
  assertKnown('stop', options, stopNames);
  return durationMs(options.timeout ?? DEFAULT_STOP_TIMEOUT, 'timeout');
}

export const clientNames: OptionNames<ClientOptions> = {
  timeout: true,
  retry: true,
  workerLabel: true,
  onCallRetried: true,
  telemetry: true,
};
const telemetryNames: OptionNames<TelemetryOptions> = { tracerProvider: true, meterProvider: true };
