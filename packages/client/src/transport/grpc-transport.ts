import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ChannelOptions, status } from '@grpc/grpc-js';
import { addressName, limits, type Method, methods, type RoutedNames, routedNames, waitOf } from '@taskmaster/proto';
import { durationMs } from '../values/duration.ts';
import { cancelled, isTaskMasterError } from '../values/errors.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { endpointList, type GrpcOptions, type Routing, type TlsOptions } from '../values/options.ts';
import { bearerOf } from './channels/bearer.ts';
import { channelCredentials } from './channels/channel-security.ts';
import { usesHttpProxy } from './channels/http-proxy.ts';
import { ClusterCheck } from './cluster-check.ts';
import { Connection } from './connection.ts';
import { EndpointPool } from './endpoint-pool.ts';
import { HolderRoutes } from './holder-routes.ts';
import { type StreamedRequest, streamedSize } from './request-size.ts';
import { answerStream, unaryCall } from './single-call.ts';
import { systemTiming, type Timing } from './timing.ts';
import type { Reachable, Transport, TransportCallOptions } from './transport.ts';

/** Parts that tests replace. */
export interface GrpcTransportParts {
  readonly timing?: Timing | undefined;
  /** Uniform in [0, 1). */
  readonly random?: (() => number) | undefined;
}

const NO_OPTIONS: TransportCallOptions = {};
const DEFAULT_CALLS_IN_FLIGHT = 4_096;
/** Timeout of the question which cluster a program belongs to, in ms. */
const CHECK_MS = 5_000;
const UNANSWERED: ReadonlySet<number> = new Set([status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED]);

/** Transport to nodes and proxies over gRPC. Updates, leases and waits go over a stream, other requests are unary calls. */
export class GrpcTransport implements Transport {
  readonly reachableFrom: Reachable | undefined;
  readonly #pool: EndpointPool;
  readonly #routes: HolderRoutes;
  readonly #useStream: boolean;
  readonly #isChecked: boolean;

  constructor(options: GrpcOptions, parts: GrpcTransportParts = {}) {
    const endpoints = endpointList(options.endpoints);
    const timing = parts.timing ?? systemTiming;
    const random = parts.random ?? Math.random;
    const routing = routingOf(options.routing);
    this.#useStream = options.useStream ?? true;
    const { token, tokenFile, insecure, tls, httpProxy = true } = options;
    const isEncrypted = options.credentials?._isSecure() ?? tls !== undefined;
    const renewalThread = renewalThreadOf(options.renewalThread);
    this.reachableFrom =
      options.credentials === undefined && typeof token !== 'function' && renewalThread !== false
        ? { endpoints, cluster: options.cluster, tls, routing, token, tokenFile, insecure, httpProxy, renewalThread }
        : undefined;
    const bearer = bearerOf(options, endpoints, isEncrypted);
    const common = {
      credentials: options.credentials ?? channelCredentials(options.tls),
      timing,
      random,
      bearer,
      maxCallsInFlight: callsInFlight(options.maxCallsInFlight),
    };
    const hooks = { onReconnected: inContext('onReconnected', options.onReconnected) };
    const cluster = clusterOf(options.cluster);
    // A single endpoint has nothing to differ from.
    const check =
      cluster !== undefined || endpoints.length > 1 ? new ClusterCheck(cluster, endpoints.length) : undefined;
    this.#isChecked = check !== undefined;
    const mayServe = async (connection: Connection, known: ClusterCheck, isRouted: boolean): Promise<boolean> => {
      const told = await clusterAt(connection);
      if (told === undefined) return false;
      if (!isRouted) {
        known.told(connection.endpoint, told);
        this.#pool.clusterTold();
      }
      return known.mayServe(told);
    };
    const open = (endpoint: string, isRouted: boolean): Connection =>
      new Connection({
        ...common,
        channelOptions: channelOptions(endpoint, tls, httpProxy),
        endpoint,
        isRouted,
        mayServe: check && ((connection) => mayServe(connection, check, isRouted)),
        onUnreachable: isRouted ? undefined : () => check?.lost(endpoint),
        onChange: (connection, error) => {
          if (error !== undefined && !isRouted) check?.lost(endpoint);
          if (error === undefined) this.#pool.cameUp(connection);
          else this.#routes.lost();
          const state = error === undefined ? 'connected' : 'lost';
          callHook(hooks, 'onReconnected', { endpoint, state, error });
        },
        hasOther: (connection) => this.#pool.hasOther(connection),
        onDenied: (connection, metadata) => this.#routes.denied(connection, metadata),
      });
    const connections = endpoints.map((endpoint) => open(endpoint, false));
    this.#pool = new EndpointPool(connections, timing, check);
    this.#routes = new HolderRoutes({
      routing,
      timing,
      random,
      pool: this.#pool,
      open: (address) => open(address, true),
      mayGoTo: (address) => bearer?.mayGoTo(address) ?? true,
    });
  }

  get canTryElsewhere(): boolean {
    return this.#pool.hasRested;
  }

  get isUp(): boolean {
    return this.#pool.isLive;
  }

  /** Resolves when one endpoint is up. @throws UnavailableError if none is up in time; CancelledError. */
  async ready(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    await this.#pool.whenLive(timeoutMs, signal);
    if (this.#isChecked) await this.#pool.tried();
  }

  unary<Q extends object, R>(method: Method<Q, R>, request: Q, options = NO_OPTIONS): Promise<R> {
    const { streamed } = method;
    const call = streamed && ({ $case: streamed, value: request } as unknown as StreamedRequest);
    let size: number | undefined;
    try {
      size = call && streamedSize(call);
    } catch (error) {
      return Promise.reject(error);
    }
    if (options.signal?.aborted) return Promise.reject(cancelled(options.signal));
    if (!this.#useStream) size = undefined;
    const names = routedNames(method, request);
    const connection = this.#routes.pick(names);
    if (connection !== undefined) return send(connection, method, request, call, size, options);
    return this.#whenLive(options, names, (live, left) => send(live, method, request, call, size, left));
  }

  async *stream<Q extends object, R>(
    method: Method<Q, R>,
    request: Q,
    { signal }: Pick<TransportCallOptions, 'signal'> = NO_OPTIONS,
  ): AsyncGenerator<R, undefined> {
    if (signal?.aborted) throw cancelled(signal);
    const names = routedNames(method, request);
    const connection = this.#routes.pick(names) ?? (await this.#routes.whenLive(names, undefined, signal));
    yield* answerStream(connection, method, request, signal);
  }

  async close(): Promise<void> {
    this.#routes.close();
    this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Makes the call when a connection is up, within its deadline. */
  async #whenLive<Reply>(
    options: TransportCallOptions,
    names: RoutedNames,
    call: (connection: Connection, options: TransportCallOptions) => Promise<Reply>,
  ): Promise<Reply> {
    const { timeoutMs, signal, traceparent } = options;
    const start = performance.now();
    const connection = await this.#routes.whenLive(names, timeoutMs, signal);
    if (timeoutMs === undefined) return call(connection, options);
    return call(connection, { signal, traceparent, timeoutMs: Math.max(0, timeoutMs - (performance.now() - start)) });
  }
}

/** `size`: of a call that goes over the stream. Undefined: a unary call. */
function send<Q extends object, R>(
  connection: Connection,
  method: Method<Q, R>,
  request: Q,
  call: StreamedRequest | undefined,
  size: number | undefined,
  options: TransportCallOptions,
): Promise<R> {
  if (call === undefined || size === undefined) {
    return unaryCall(connection, method, request, options, waitOf(request));
  }
  return connection.stream.call(call, size, options) as Promise<R>;
}

function routingOf(given: Routing | undefined): Routing {
  if (given === undefined || given === 'any' || given === 'direct') return given ?? 'any';
  throw new TypeError(`routing: '${String(given)}' is not 'any' or 'direct'`);
}

function clusterOf(given: string | undefined): string | undefined {
  if (given === undefined || (typeof given === 'string' && given !== '')) return given;
  throw new TypeError('cluster: must be the id of a cluster, which is not empty');
}

/**
 * The cluster of the program that a connection leads to. Empty: it does not tell. Undefined: it does not answer. A refusal of the
 * caller tells nothing: its calls get the same refusal.
 */
async function clusterAt(connection: Connection): Promise<string | undefined> {
  try {
    const asked = { principal: '', questions: [] };
    return (await unaryCall(connection, methods.whoAmI, asked, { timeoutMs: CHECK_MS }, 0)).cluster;
  } catch (error) {
    const isUnanswered = isTaskMasterError(error) && UNANSWERED.has(error.code);
    return isUnanswered ? undefined : '';
  }
}

/** The path of the program. Undefined: the default. False: no thread renews leases. */
function renewalThreadOf(given: string | URL | false | undefined): string | false | undefined {
  if (given === undefined || given === false) return given;
  const isUrl = given instanceof URL || (typeof given === 'string' && given.startsWith('file:'));
  if (isUrl) return fileURLToPath(given);
  if (typeof given === 'string' && given !== '') return resolve(given);
  throw new TypeError('renewalThread: must be a path, a file: URL, or false');
}

function channelOptions(endpoint: string, tls: TlsOptions | undefined, httpProxy: boolean): ChannelOptions {
  const serverName = tls && (tls.serverName ?? addressName(endpoint));
  return {
    // A reply has up to 3.5 MiB of payloads, and a message of the stream may have several replies.
    'grpc.max_receive_message_length': 4 * limits.requestBytes,
    // Large enough for one lease reply. The default of 64 KiB would delay it.
    'grpc-node.flow_control_window': limits.requestBytes,
    // Detects a peer that disappeared without closing its connection. Longer than pauses of a busy node.
    'grpc.keepalive_time_ms': 30_000,
    'grpc.keepalive_timeout_ms': 20_000,
    'grpc.initial_reconnect_backoff_ms': 50,
    'grpc.max_reconnect_backoff_ms': 2_000,
    'grpc.enable_http_proxy': httpProxy && usesHttpProxy(endpoint) ? 1 : 0,
    ...(serverName === undefined ? {} : { 'grpc.ssl_target_name_override': serverName }),
  };
}

function callsInFlight(given: number | undefined): number {
  const count = given ?? DEFAULT_CALLS_IN_FLIGHT;
  if (Number.isInteger(count) && count > 0) return count;
  throw new TypeError(`maxCallsInFlight: ${count} is not a whole number from 1`);
}

/** Timeout of `connect`, in ms. */
export function connectTimeoutMs(options: GrpcOptions): number {
  return durationMs(options.connectTimeout ?? '10s', 'connectTimeout');
}
