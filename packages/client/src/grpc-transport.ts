import { type ChannelCredentials, type ChannelOptions, credentials, type ServiceError, status } from '@grpc/grpc-js';
import {
  ClusterServiceService as clusterService,
  type DeleteQueueRequest,
  type DeleteQueueResponse,
  type GetQueueStatsRequest,
  type GetQueueStatsResponse,
  type GetTasksRequest,
  type GetTasksResponse,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type ListQueuesRequest,
  type ListQueuesResponse,
  limits,
  type PeekTasksRequest,
  type PeekTasksResponse,
  type ResetLeasesRequest,
  type ResetLeasesResponse,
  TaskMasterServiceService as service,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import { Connection } from './connection.ts';
import { durationMs } from './duration.ts';
import { EndpointPool } from './endpoint-pool.ts';
import { cancelled, InvalidRequest, makeError, type TaskMasterError } from './errors.ts';
import { callHook, endpointList, type GrpcOptions, type TlsOptions } from './options.ts';
import { assertUpdateFits, updateSizeBound } from './request-size.ts';
import { systemTiming, type Timing } from './timing.ts';
import type { ClusterCalls, Reachable, Transport, TransportCallOptions } from './transport.ts';
import { brokenReply, errorFromService, wireErrorOf } from './wire-errors.ts';

/** Parts that tests replace. */
export interface GrpcTransportParts {
  readonly timing?: Timing | undefined;
  /** Uniform in [0, 1). */
  readonly random?: (() => number) | undefined;
}

/** Just the parts of a generated method definition that a unary call needs. */
interface UnaryMethod<Request, Reply> {
  readonly path: string;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Reply;
}

const NO_OPTIONS: TransportCallOptions = {};
const DEFAULT_CALLS_IN_FLIGHT = 4_096;

/** Reaches nodes and proxies over gRPC: updates and leases over a stream, the rest in calls of their own. */
export class GrpcTransport implements Transport {
  readonly cluster: ClusterCalls = {
    listMembers: (request, options = NO_OPTIONS) => this.#unary(clusterService.listMembers, request, options),
    listPartitions: (request, options = NO_OPTIONS) => this.#unary(clusterService.listPartitions, request, options),
    drainMember: (request, options = NO_OPTIONS) => this.#unary(clusterService.drainMember, request, options),
    removeMember: (request, options = NO_OPTIONS) => this.#unary(clusterService.removeMember, request, options),
  };
  readonly reachableFrom: Reachable | undefined;
  readonly #pool: EndpointPool;
  readonly #useStream: boolean;

  constructor(options: GrpcOptions, parts: GrpcTransportParts = {}) {
    const endpoints = endpointList(options.endpoints);
    const timing = parts.timing ?? systemTiming;
    this.#useStream = options.useStream ?? true;
    this.reachableFrom = options.credentials === undefined ? { endpoints, tls: options.tls } : undefined;
    const channelCredentials = options.credentials ?? credentialsOf(options.tls);
    const onChange = (connection: Connection, error: TaskMasterError | undefined): void => {
      if (error === undefined) this.#pool.cameUp(connection);
      const state = error === undefined ? 'connected' : 'lost';
      callHook(options.onReconnect, { endpoint: connection.endpoint, state, error });
    };
    const connections = endpoints.map(
      (endpoint) =>
        new Connection({
          endpoint,
          credentials: channelCredentials,
          channelOptions: channelOptions(options.tls),
          timing,
          random: parts.random ?? Math.random,
          maxCallsInFlight: callsInFlight(options.maxCallsInFlight),
          onChange,
        }),
    );
    this.#pool = new EndpointPool(connections, timing);
  }

  get canTryElsewhere(): boolean {
    return this.#pool.hasRested;
  }

  /** Resolves when one endpoint is up. @throws Unavailable when none is in time; Cancelled. */
  async ready(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    await this.#pool.whenLive(timeoutMs, signal);
  }

  updateTasks(request: UpdateTasksRequest, options = NO_OPTIONS): Promise<UpdateTasksResponse> {
    const sizeBound = updateSizeBound(request);
    if (sizeBound > limits.requestBytes) {
      try {
        assertUpdateFits(request);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    if (!this.#useStream) return this.#unary(service.updateTasks, request, options);
    const connection = this.#pool.pick();
    if (connection !== undefined) return connection.stream.update(request, sizeBound, options);
    return this.#whenLive(options, (live, left) => live.stream.update(request, sizeBound, left));
  }

  leaseTasks(request: LeaseTasksRequest, options = NO_OPTIONS): Promise<LeaseTasksResponse> {
    if (!this.#useStream) return this.#unary(service.leaseTasks, request, options, request.waitMs);
    const connection = this.#pool.pick();
    if (connection !== undefined) return connection.stream.lease(request, options);
    return this.#whenLive(options, (live, left) => live.stream.lease(request, left));
  }

  listQueues(request: ListQueuesRequest, options = NO_OPTIONS): Promise<ListQueuesResponse> {
    return this.#unary(service.listQueues, request, options);
  }

  getQueueStats(request: GetQueueStatsRequest, options = NO_OPTIONS): Promise<GetQueueStatsResponse> {
    return this.#unary(service.getQueueStats, request, options);
  }

  peekTasks(request: PeekTasksRequest, options = NO_OPTIONS): Promise<PeekTasksResponse> {
    return this.#unary(service.peekTasks, request, options);
  }

  getTasks(request: GetTasksRequest, options = NO_OPTIONS): Promise<GetTasksResponse> {
    return this.#unary(service.getTasks, request, options);
  }

  deleteQueue(request: DeleteQueueRequest, options = NO_OPTIONS): Promise<DeleteQueueResponse> {
    return this.#unary(service.deleteQueue, request, options);
  }

  resetLeases(request: ResetLeasesRequest, options = NO_OPTIONS): Promise<ResetLeasesResponse> {
    return this.#unary(service.resetLeases, request, options);
  }

  async close(): Promise<void> {
    this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #unary<Request, Reply>(
    method: UnaryMethod<Request, Reply>,
    request: Request,
    options: TransportCallOptions,
    extraMs = 0,
  ): Promise<Reply> {
    if (options.signal?.aborted) return Promise.reject(cancelled(options.signal));
    const connection = this.#pool.pick();
    if (connection !== undefined) return unaryCall(connection, method, request, options, extraMs);
    return this.#whenLive(options, (live, left) => unaryCall(live, method, request, left, extraMs));
  }

  /** No endpoint is up: the call waits for one, within its deadline. */
  async #whenLive<Reply>(
    options: TransportCallOptions,
    call: (connection: Connection, options: TransportCallOptions) => Promise<Reply>,
  ): Promise<Reply> {
    const { timeoutMs, signal } = options;
    const start = performance.now();
    const connection = await this.#pool.whenLive(timeoutMs, signal);
    if (timeoutMs === undefined) return call(connection, options);
    return call(connection, { signal, timeoutMs: Math.max(0, timeoutMs - (performance.now() - start)) });
  }
}

/** One call of its own. A lease that is given up is cancelled: what it was leased at that moment comes back when it ends. */
function unaryCall<Request, Reply>(
  connection: Connection,
  method: UnaryMethod<Request, Reply>,
  request: Request,
  { signal, timeoutMs }: TransportCallOptions,
  extraMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let requestBytes: Buffer;
    try {
      requestBytes = method.requestSerialize(request);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      reject(new InvalidRequest(`the request cannot be encoded: ${why}`, { reason: 'INVALID_ARGUMENT', cause }));
      return;
    }
    const call = connection.client.makeUnaryRequest(
      method.path,
      (bytes: Buffer) => bytes,
      method.responseDeserialize,
      requestBytes,
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs + extraMs },
      (failure: ServiceError | null, reply?: Reply) => {
        signal?.removeEventListener('abort', onAbort);
        if (failure === null && reply !== undefined) {
          resolve(reply);
          return;
        }
        const error = failure === null ? brokenReply('sent no reply') : failureOf(failure);
        connection.failed(error);
        reject(signal?.aborted ? cancelled(signal, error) : error);
      },
    );
    const onAbort = (): void => call.cancel();
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** A server that ends without waiting for its calls cancels them, which is no wish of the caller's. */
function failureOf(failure: ServiceError): TaskMasterError {
  const error = errorFromService(failure);
  if (failure.code !== status.CANCELLED || wireErrorOf(failure) !== undefined) return error;
  const message = `the call was cut off: ${error.message}`;
  return makeError(message, { reason: 'UNAVAILABLE', retryable: true, maybeApplied: true, cause: failure });
}

function channelOptions(tls: TlsOptions | undefined): ChannelOptions {
  return {
    // Replies hold up to 3.5 MiB of payloads, and several may travel in one message of the stream.
    'grpc.max_receive_message_length': 4 * limits.requestBytes,
    // One lease reply in flight without waiting for the window; the default is 64 KiB.
    'grpc-node.flow_control_window': limits.requestBytes,
    // Notices a peer that vanished without closing its connection; must be longer than pauses of a busy node.
    'grpc.keepalive_time_ms': 30_000,
    'grpc.keepalive_timeout_ms': 20_000,
    'grpc.initial_reconnect_backoff_ms': 50,
    'grpc.max_reconnect_backoff_ms': 2_000,
    ...(tls?.serverName === undefined ? {} : { 'grpc.ssl_target_name_override': tls.serverName }),
  };
}

function credentialsOf(tls: TlsOptions | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  return credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert));
}

function pem(bytes: Uint8Array | undefined): Buffer | null {
  return bytes === undefined ? null : Buffer.from(bytes);
}

function callsInFlight(given: number | undefined): number {
  const count = given ?? DEFAULT_CALLS_IN_FLIGHT;
  if (Number.isInteger(count) && count > 0) return count;
  throw new TypeError(`maxCallsInFlight: ${count} is not a whole number from 1`);
}

/** How long `connect` waits for the first endpoint, in ms. */
export function connectTimeoutMs(options: GrpcOptions): number {
  return durationMs(options.connectTimeout ?? '10s', 'connectTimeout');
}
