import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ChannelOptions, status } from '@grpc/grpc-js';
import {
  AccessServiceService as accessService,
  addressName,
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  BackupServiceService as backupService,
  ClusterServiceService as clusterService,
  type DeleteQueueRequest,
  type DeleteQueueResponse,
  type DeleteQueueSettingsRequest,
  type DeleteQueueSettingsResponse,
  type DeleteScheduleRequest,
  type DeleteScheduleResponse,
  type GetQueueStatsRequest,
  type GetQueueStatsResponse,
  type GetTasksRequest,
  type GetTasksResponse,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type ListQueueSettingsRequest,
  type ListQueueSettingsResponse,
  type ListQueuesRequest,
  type ListQueuesResponse,
  type ListSchedulesRequest,
  type ListSchedulesResponse,
  type ListSubscriptionsRequest,
  type ListSubscriptionsResponse,
  limits,
  type PauseScheduleRequest,
  type PauseScheduleResponse,
  type PeekTasksRequest,
  type PeekTasksResponse,
  type PutQueueSettingsRequest,
  type PutQueueSettingsResponse,
  type PutScheduleRequest,
  type PutScheduleResponse,
  type ResetLeasesRequest,
  type ResetLeasesResponse,
  type SubscribeRequest,
  type SubscribeResponse,
  TaskMasterServiceService as service,
  type TriggerScheduleRequest,
  type TriggerScheduleResponse,
  type UnsubscribeRequest,
  type UnsubscribeResponse,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type WaitForTasksRequest,
  type WaitForTasksResponse,
  type WhoAmIRequest,
  type WhoAmIResponse,
} from '@taskmaster/proto';
import { durationMs } from '../values/duration.ts';
import { cancelled, isTaskMasterError } from '../values/errors.ts';
import { callHook, inContext } from '../values/hooks.ts';
import { endpointList, type GrpcOptions, type Routing, type TlsOptions } from '../values/options.ts';
import { answerStream } from './answer-stream.ts';
import { bearerOf } from './channels/bearer.ts';
import { channelCredentials } from './channels/channel-security.ts';
import { usesHttpProxy } from './channels/http-proxy.ts';
import { ClusterCheck } from './cluster-check.ts';
import { Connection } from './connection.ts';
import { EndpointPool } from './endpoint-pool.ts';
import { HolderRoutes, type QueueNames } from './holder-routes.ts';
import { assertUpdateFits, updateSizeBound } from './request-size.ts';
import { systemTiming, type Timing } from './timing.ts';
import type { ClusterCalls, Reachable, Transport, TransportCallOptions } from './transport.ts';
import { type UnaryMethod, unaryCall } from './unary-call.ts';

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

/** Transport to nodes and proxies over gRPC. Updates and leases go over a stream, other requests are unary calls. */
export class GrpcTransport implements Transport {
  readonly cluster: ClusterCalls = {
    listMembers: (request, options = NO_OPTIONS) => this.#unary(clusterService.listMembers, request, options),
    listPartitions: (request, options = NO_OPTIONS) => this.#unary(clusterService.listPartitions, request, options),
    drainMember: (request, options = NO_OPTIONS) => this.#unary(clusterService.drainMember, request, options),
    removeMember: (request, options = NO_OPTIONS) =>
      this.#unary(clusterService.removeMember, request, options, undefined, request.waitMs),
  };
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
    const hooks = { onReconnected: inContext(options.onReconnected) };
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

  updateTasks(request: UpdateTasksRequest, options = NO_OPTIONS): Promise<UpdateTasksResponse> {
    const size = updateSizeBound(request);
    if (size > limits.requestBytes) {
      try {
        assertUpdateFits(request);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    const queue = queueOf(request);
    if (!this.#useStream) return this.#unary(service.updateTasks, request, options, queue);
    const connection = this.#routes.pick(queue);
    if (connection !== undefined) return connection.stream.update(request, size, options);
    return this.#whenLive(options, queue, (live, left) => live.stream.update(request, size, left));
  }

  leaseTasks(request: LeaseTasksRequest, options = NO_OPTIONS): Promise<LeaseTasksResponse> {
    const { queues, waitMs } = request;
    if (!this.#useStream) return this.#unary(service.leaseTasks, request, options, queues, waitMs);
    const connection = this.#routes.pick(queues);
    if (connection !== undefined) return connection.stream.lease(request, options);
    return this.#whenLive(options, queues, (live, left) => live.stream.lease(request, left));
  }

  waitForTasks(request: WaitForTasksRequest, options = NO_OPTIONS): Promise<WaitForTasksResponse> {
    const queue = request.tasks[0]?.queue;
    if (!this.#useStream) return this.#unary(service.waitForTasks, request, options, queue, request.waitMs);
    const connection = this.#routes.pick(queue);
    if (connection !== undefined) return connection.stream.wait(request, options);
    return this.#whenLive(options, queue, (live, left) => live.stream.wait(request, left));
  }

  listQueues(request: ListQueuesRequest, options = NO_OPTIONS): Promise<ListQueuesResponse> {
    return this.#unary(service.listQueues, request, options);
  }

  getQueueStats(request: GetQueueStatsRequest, options = NO_OPTIONS): Promise<GetQueueStatsResponse> {
    return this.#unary(service.getQueueStats, request, options, request.queues);
  }

  peekTasks(request: PeekTasksRequest, options = NO_OPTIONS): Promise<PeekTasksResponse> {
    return this.#unary(service.peekTasks, request, options, request.queue);
  }

  getTasks(request: GetTasksRequest, options = NO_OPTIONS): Promise<GetTasksResponse> {
    return this.#unary(service.getTasks, request, options, request.queue);
  }

  deleteQueue(request: DeleteQueueRequest, options = NO_OPTIONS): Promise<DeleteQueueResponse> {
    return this.#unary(service.deleteQueue, request, options, request.queue);
  }

  resetLeases(request: ResetLeasesRequest, options = NO_OPTIONS): Promise<ResetLeasesResponse> {
    return this.#unary(service.resetLeases, request, options, request.queue);
  }

  putQueueSettings(request: PutQueueSettingsRequest, options = NO_OPTIONS): Promise<PutQueueSettingsResponse> {
    return this.#unary(service.putQueueSettings, request, options, request.queues);
  }

  deleteQueueSettings(request: DeleteQueueSettingsRequest, options = NO_OPTIONS): Promise<DeleteQueueSettingsResponse> {
    return this.#unary(service.deleteQueueSettings, request, options, request.queues);
  }

  listQueueSettings(request: ListQueueSettingsRequest, options = NO_OPTIONS): Promise<ListQueueSettingsResponse> {
    return this.#unary(service.listQueueSettings, request, options, request.queue);
  }

  putSchedule(request: PutScheduleRequest, options = NO_OPTIONS): Promise<PutScheduleResponse> {
    return this.#unary(service.putSchedule, request, options, request.schedule);
  }

  listSchedules(request: ListSchedulesRequest, options = NO_OPTIONS): Promise<ListSchedulesResponse> {
    return this.#unary(service.listSchedules, request, options, request.schedule);
  }

  deleteSchedule(request: DeleteScheduleRequest, options = NO_OPTIONS): Promise<DeleteScheduleResponse> {
    return this.#unary(service.deleteSchedule, request, options, request.schedule);
  }

  pauseSchedule(request: PauseScheduleRequest, options = NO_OPTIONS): Promise<PauseScheduleResponse> {
    return this.#unary(service.pauseSchedule, request, options, request.schedule);
  }

  triggerSchedule(request: TriggerScheduleRequest, options = NO_OPTIONS): Promise<TriggerScheduleResponse> {
    return this.#unary(service.triggerSchedule, request, options, request.schedule);
  }

  subscribe(request: SubscribeRequest, options = NO_OPTIONS): Promise<SubscribeResponse> {
    return this.#unary(service.subscribe, request, options, request.topic);
  }

  unsubscribe(request: UnsubscribeRequest, options = NO_OPTIONS): Promise<UnsubscribeResponse> {
    return this.#unary(service.unsubscribe, request, options, request.topic);
  }

  listSubscriptions(request: ListSubscriptionsRequest, options = NO_OPTIONS): Promise<ListSubscriptionsResponse> {
    return this.#unary(service.listSubscriptions, request, options, request.topic);
  }

  whoAmI(request: WhoAmIRequest, options = NO_OPTIONS): Promise<WhoAmIResponse> {
    return this.#unary(accessService.whoAmI, request, options);
  }

  async *backupPartition(
    request: BackupPartitionRequest,
    { signal }: Pick<TransportCallOptions, 'signal'> = NO_OPTIONS,
  ): AsyncGenerator<BackupPartitionResponse, undefined> {
    const { partition } = request;
    if (signal?.aborted) throw cancelled(signal);
    const connection = this.#routes.pick(partition) ?? (await this.#routes.whenLive(partition, undefined, signal));
    yield* answerStream(connection, backupService.backupPartition, request, signal);
  }

  async close(): Promise<void> {
    this.#routes.close();
    this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #unary<Request, Reply>(
    method: UnaryMethod<Request, Reply>,
    request: Request,
    options: TransportCallOptions,
    queues?: QueueNames,
    extraMs = 0,
  ): Promise<Reply> {
    if (options.signal?.aborted) return Promise.reject(cancelled(options.signal));
    const connection = this.#routes.pick(queues);
    if (connection !== undefined) return unaryCall(connection, method, request, options, extraMs);
    return this.#whenLive(options, queues, (live, left) => unaryCall(live, method, request, left, extraMs));
  }

  /** Makes the call when a connection is up, within its deadline. */
  async #whenLive<Reply>(
    options: TransportCallOptions,
    queues: QueueNames,
    call: (connection: Connection, options: TransportCallOptions) => Promise<Reply>,
  ): Promise<Reply> {
    const { timeoutMs, signal } = options;
    const start = performance.now();
    const connection = await this.#routes.whenLive(queues, timeoutMs, signal);
    if (timeoutMs === undefined) return call(connection, options);
    return call(connection, { signal, timeoutMs: Math.max(0, timeoutMs - (performance.now() - start)) });
  }
}

/** A queue of the update. All its queues have the same group. */
function queueOf({ enqueue, dequeue, renew, release }: UpdateTasksRequest): string | undefined {
  return (enqueue[0] ?? dequeue[0] ?? renew[0] ?? release[0])?.queue;
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
    return (await unaryCall(connection, accessService.whoAmI, asked, { timeoutMs: CHECK_MS }, 0)).cluster;
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
