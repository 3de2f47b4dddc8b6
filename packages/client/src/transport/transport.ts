import type {
  BackupPartitionRequest,
  BackupPartitionResponse,
  DeleteQueueRequest,
  DeleteQueueResponse,
  DeleteQueueSettingsRequest,
  DeleteQueueSettingsResponse,
  DeleteScheduleRequest,
  DeleteScheduleResponse,
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
  ListQueueSettingsRequest,
  ListQueueSettingsResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  ListSchedulesRequest,
  ListSchedulesResponse,
  ListSubscriptionsRequest,
  ListSubscriptionsResponse,
  PauseScheduleRequest,
  PauseScheduleResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  PutQueueSettingsRequest,
  PutQueueSettingsResponse,
  PutScheduleRequest,
  PutScheduleResponse,
  RemoveMemberRequest,
  RemoveMemberResponse,
  ResetLeasesRequest,
  ResetLeasesResponse,
  SubscribeRequest,
  SubscribeResponse,
  TriggerScheduleRequest,
  TriggerScheduleResponse,
  UnsubscribeRequest,
  UnsubscribeResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
  WaitForTasksRequest,
  WaitForTasksResponse,
  WhoAmIRequest,
  WhoAmIResponse,
} from '@taskmaster/proto';
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

/** Calls of operators to a cluster. They reject like calls of a transport. */
export interface ClusterCalls {
  listMembers(request: ListMembersRequest, options?: TransportCallOptions): Promise<ListMembersResponse>;
  listPartitions(request: ListPartitionsRequest, options?: TransportCallOptions): Promise<ListPartitionsResponse>;
  drainMember(request: DrainMemberRequest, options?: TransportCallOptions): Promise<DrainMemberResponse>;
  removeMember(request: RemoveMemberRequest, options?: TransportCallOptions): Promise<RemoveMemberResponse>;
}

/**
 * The way to an engine: over gRPC, or in the same process. A call is one attempt; the client adds repetitions. Calls reject only
 * with a `TaskMasterError`.
 */
export interface Transport extends AsyncDisposable {
  updateTasks(request: UpdateTasksRequest, options?: TransportCallOptions): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest, options?: TransportCallOptions): Promise<LeaseTasksResponse>;
  waitForTasks(request: WaitForTasksRequest, options?: TransportCallOptions): Promise<WaitForTasksResponse>;
  listQueues(request: ListQueuesRequest, options?: TransportCallOptions): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest, options?: TransportCallOptions): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest, options?: TransportCallOptions): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest, options?: TransportCallOptions): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest, options?: TransportCallOptions): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest, options?: TransportCallOptions): Promise<ResetLeasesResponse>;
  putQueueSettings(request: PutQueueSettingsRequest, options?: TransportCallOptions): Promise<PutQueueSettingsResponse>;
  deleteQueueSettings(
    request: DeleteQueueSettingsRequest,
    options?: TransportCallOptions,
  ): Promise<DeleteQueueSettingsResponse>;
  listQueueSettings(
    request: ListQueueSettingsRequest,
    options?: TransportCallOptions,
  ): Promise<ListQueueSettingsResponse>;
  putSchedule(request: PutScheduleRequest, options?: TransportCallOptions): Promise<PutScheduleResponse>;
  listSchedules(request: ListSchedulesRequest, options?: TransportCallOptions): Promise<ListSchedulesResponse>;
  deleteSchedule(request: DeleteScheduleRequest, options?: TransportCallOptions): Promise<DeleteScheduleResponse>;
  pauseSchedule(request: PauseScheduleRequest, options?: TransportCallOptions): Promise<PauseScheduleResponse>;
  triggerSchedule(request: TriggerScheduleRequest, options?: TransportCallOptions): Promise<TriggerScheduleResponse>;
  subscribe(request: SubscribeRequest, options?: TransportCallOptions): Promise<SubscribeResponse>;
  unsubscribe(request: UnsubscribeRequest, options?: TransportCallOptions): Promise<UnsubscribeResponse>;
  listSubscriptions(
    request: ListSubscriptionsRequest,
    options?: TransportCallOptions,
  ): Promise<ListSubscriptionsResponse>;
  /**
   * Sends a partition. Begins with the first call of `next`. `return` and the signal give the backup up. There is no timeout.
   */
  backupPartition(
    request: BackupPartitionRequest,
    options?: Pick<TransportCallOptions, 'signal'>,
  ): AsyncIterableIterator<BackupPartitionResponse, undefined>;
  /** Undefined: there is no cluster, because the engine is in this process. */
  readonly cluster?: ClusterCalls;
  /** Undefined: no rules of access are possible, because the engine is in this process. */
  whoAmI?(request: WhoAmIRequest, options?: TransportCallOptions): Promise<WhoAmIResponse>;
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
