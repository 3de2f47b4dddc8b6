import type {
  DeleteQueueRequest,
  DeleteQueueResponse,
  DrainMemberRequest,
  DrainMemberResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListMembersRequest,
  ListMembersResponse,
  ListPartitionsRequest,
  ListPartitionsResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  RemoveMemberRequest,
  RemoveMemberResponse,
  ResetLeasesRequest,
  ResetLeasesResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import type { Routing, TlsOptions } from '../values/options.ts';

export { isTaskMasterError, withMaybeApplied } from '../values/errors.ts';
export { errorFromWire } from './wire-errors.ts';

export interface TransportCallOptions {
  /**
   * Gives the call up; it rejects with `CancelledError`. A lease that is given up settles once nothing more can be leased to it:
   * it may still resolve with tasks, which the caller then gives back.
   */
  readonly signal?: AbortSignal | undefined;
  /** From now, in ms; the call rejects with `DeadlineExceededError`. A request's own waiting time comes on top. */
  readonly timeoutMs?: number | undefined;
}

/** Where a thread of its own can reach the same engine. Plain data, to be sent to that thread. */
export interface Reachable {
  readonly endpoints: readonly string[];
  readonly tls: TlsOptions | undefined;
  /** Default `any`. */
  readonly routing?: Routing;
}

/** What operators ask of a cluster. Rejections are those of a transport. */
export interface ClusterCalls {
  listMembers(request: ListMembersRequest, options?: TransportCallOptions): Promise<ListMembersResponse>;
  listPartitions(request: ListPartitionsRequest, options?: TransportCallOptions): Promise<ListPartitionsResponse>;
  drainMember(request: DrainMemberRequest, options?: TransportCallOptions): Promise<DrainMemberResponse>;
  removeMember(request: RemoveMemberRequest, options?: TransportCallOptions): Promise<RemoveMemberResponse>;
}

/**
 * How the client reaches an engine: over gRPC, or in the same process. One attempt per call, no retries; the client
 * adds those. Rejects with a `TaskMasterError` and nothing else.
 */
export interface Transport extends AsyncDisposable {
  updateTasks(request: UpdateTasksRequest, options?: TransportCallOptions): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest, options?: TransportCallOptions): Promise<LeaseTasksResponse>;
  listQueues(request: ListQueuesRequest, options?: TransportCallOptions): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest, options?: TransportCallOptions): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest, options?: TransportCallOptions): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest, options?: TransportCallOptions): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest, options?: TransportCallOptions): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest, options?: TransportCallOptions): Promise<ResetLeasesResponse>;
  /** Undefined where there can be no cluster: in process. */
  readonly cluster?: ClusterCalls;
  /** For renewing leases while the event loop is busy; undefined when only this thread can (in process). */
  readonly reachableFrom: Reachable | undefined;
  /**
   * Whether a call that one node was unable to serve would now go to another one, so that it need not wait as long as the
   * first one asks for. Default: false.
   */
  readonly canTryElsewhere?: boolean;
  /** Ends calls in flight with `CancelledError`, closes connections. */
  close(): Promise<void>;
}
