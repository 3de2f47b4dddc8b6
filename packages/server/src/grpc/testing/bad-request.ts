import type {
  DeleteQueueRequest,
  DeleteQueueResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  Reason,
  ResetLeasesRequest,
  ResetLeasesResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
  WaitForTasksRequest,
  WaitForTasksResponse,
} from '@taskmaster/proto';

/** The operations that every transport offers. */
export interface Operations {
  updateTasks(request: UpdateTasksRequest): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest): Promise<LeaseTasksResponse>;
  waitForTasks(request: WaitForTasksRequest): Promise<WaitForTasksResponse>;
  listQueues(request: ListQueuesRequest): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest): Promise<ResetLeasesResponse>;
}

export interface BadRequest {
  readonly what: string;
  readonly reason: Reason;
  /** Path of the field at fault. */
  readonly field: string;
  readonly call: (node: Operations) => Promise<unknown>;
}
