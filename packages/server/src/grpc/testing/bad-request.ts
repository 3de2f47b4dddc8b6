import type {
  DeleteQueueRequest,
  DeleteQueueResponse,
  DeleteQueueSettingsRequest,
  DeleteQueueSettingsResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListQueueSettingsRequest,
  ListQueueSettingsResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  ListSubscriptionsRequest,
  ListSubscriptionsResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  PutQueueSettingsRequest,
  PutQueueSettingsResponse,
  Reason,
  ResetLeasesRequest,
  ResetLeasesResponse,
  SubscribeRequest,
  SubscribeResponse,
  UnsubscribeRequest,
  UnsubscribeResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
  WaitForTasksRequest,
  WaitForTasksResponse,
} from '@taskmaster/proto';
import type { ScheduleOperations } from './bad-schedules.ts';

/** The operations that every transport offers. */
export interface Operations extends ScheduleOperations {
  updateTasks(request: UpdateTasksRequest): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest): Promise<LeaseTasksResponse>;
  waitForTasks(request: WaitForTasksRequest): Promise<WaitForTasksResponse>;
  listQueues(request: ListQueuesRequest): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest): Promise<ResetLeasesResponse>;
  putQueueSettings(request: PutQueueSettingsRequest): Promise<PutQueueSettingsResponse>;
  deleteQueueSettings(request: DeleteQueueSettingsRequest): Promise<DeleteQueueSettingsResponse>;
  listQueueSettings(request: ListQueueSettingsRequest): Promise<ListQueueSettingsResponse>;
  subscribe(request: SubscribeRequest): Promise<SubscribeResponse>;
  unsubscribe(request: UnsubscribeRequest): Promise<UnsubscribeResponse>;
  listSubscriptions(request: ListSubscriptionsRequest): Promise<ListSubscriptionsResponse>;
}

export interface BadRequest {
  readonly what: string;
  readonly reason: Reason;
  /** Path of the field at fault. */
  readonly field: string;
  readonly call: (node: Operations) => Promise<unknown>;
}

/** A request that every transport must refuse before it reaches the engine. */
export function bad(what: string, reason: Reason, field: string, call: BadRequest['call']): BadRequest {
  return { what, reason, field, call };
}
