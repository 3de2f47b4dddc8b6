import { promisify } from 'node:util';
import { type ChannelOptions, credentials, type ServiceError } from '@grpc/grpc-js';
import {
  type BatchLeaseTasksRequest,
  type BatchLeaseTasksResponse,
  type BatchUpdateTasksRequest,
  type BatchUpdateTasksResponse,
  type DeleteQueueRequest,
  type DeleteQueueResponse,
  type DeleteQueueSettingsRequest,
  type DeleteQueueSettingsResponse,
  type DeleteScheduleRequest,
  type DeleteScheduleResponse,
  ErrorInfo,
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
  Status,
  type SubscribeRequest,
  type SubscribeResponse,
  TaskMasterServiceClient,
  type TriggerScheduleRequest,
  type TriggerScheduleResponse,
  type UnsubscribeRequest,
  type UnsubscribeResponse,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type WaitForTasksRequest,
  type WaitForTasksResponse,
} from '@taskmaster/proto';
import type { Operations } from './bad-request.ts';

type Batches = {
  batchUpdateTasks(request: BatchUpdateTasksRequest): Promise<BatchUpdateTasksResponse>;
  batchLeaseTasks(request: BatchLeaseTasksRequest): Promise<BatchLeaseTasksResponse>;
};

/** The generated client with promises. A call rejects with the error of grpc-js. */
export interface GrpcClient extends Operations, Batches, Disposable {
  readonly raw: TaskMasterServiceClient;
}

export function grpcClient(port: number, options: ChannelOptions = {}): GrpcClient {
  const raw = new TaskMasterServiceClient(`127.0.0.1:${port}`, credentials.createInsecure(), options);
  const unary =
    <Q, R>(method: (request: Q, callback: (error: ServiceError | null, reply: R) => void) => unknown) =>
    (request: Q): Promise<R> =>
      promisify<Q, R>((given, callback) => method.call(raw, given, callback))(request);
  return {
    raw,
    updateTasks: unary<UpdateTasksRequest, UpdateTasksResponse>(raw.updateTasks),
    leaseTasks: unary<LeaseTasksRequest, LeaseTasksResponse>(raw.leaseTasks),
    batchUpdateTasks: unary<BatchUpdateTasksRequest, BatchUpdateTasksResponse>(raw.batchUpdateTasks),
    batchLeaseTasks: unary<BatchLeaseTasksRequest, BatchLeaseTasksResponse>(raw.batchLeaseTasks),
    waitForTasks: unary<WaitForTasksRequest, WaitForTasksResponse>(raw.waitForTasks),
    listQueues: unary<ListQueuesRequest, ListQueuesResponse>(raw.listQueues),
    getQueueStats: unary<GetQueueStatsRequest, GetQueueStatsResponse>(raw.getQueueStats),
    peekTasks: unary<PeekTasksRequest, PeekTasksResponse>(raw.peekTasks),
    getTasks: unary<GetTasksRequest, GetTasksResponse>(raw.getTasks),
    deleteQueue: unary<DeleteQueueRequest, DeleteQueueResponse>(raw.deleteQueue),
    resetLeases: unary<ResetLeasesRequest, ResetLeasesResponse>(raw.resetLeases),
    putQueueSettings: unary<PutQueueSettingsRequest, PutQueueSettingsResponse>(raw.putQueueSettings),
    deleteQueueSettings: unary<DeleteQueueSettingsRequest, DeleteQueueSettingsResponse>(raw.deleteQueueSettings),
    listQueueSettings: unary<ListQueueSettingsRequest, ListQueueSettingsResponse>(raw.listQueueSettings),
    putSchedule: unary<PutScheduleRequest, PutScheduleResponse>(raw.putSchedule),
    listSchedules: unary<ListSchedulesRequest, ListSchedulesResponse>(raw.listSchedules),
    deleteSchedule: unary<DeleteScheduleRequest, DeleteScheduleResponse>(raw.deleteSchedule),
    pauseSchedule: unary<PauseScheduleRequest, PauseScheduleResponse>(raw.pauseSchedule),
    triggerSchedule: unary<TriggerScheduleRequest, TriggerScheduleResponse>(raw.triggerSchedule),
    subscribe: unary<SubscribeRequest, SubscribeResponse>(raw.subscribe),
    unsubscribe: unary<UnsubscribeRequest, UnsubscribeResponse>(raw.unsubscribe),
    listSubscriptions: unary<ListSubscriptionsRequest, ListSubscriptionsResponse>(raw.listSubscriptions),
    [Symbol.dispose]: () => raw.close(),
  };
}

/** The details of a failed call, by type. */
function detailsOf(error: ServiceError): Map<string, Uint8Array> {
  const [encoded] = error.metadata.get('grpc-status-details-bin');
  const { details } = Status.decode(Buffer.from(encoded ?? ''));
  return new Map(details.map(({ typeUrl, value }) => [typeUrl.replace('type.googleapis.com/', ''), value]));
}

export function errorInfoOf(error: ServiceError): ErrorInfo {
  return ErrorInfo.decode(detailsOf(error).get('google.rpc.ErrorInfo') ?? Buffer.alloc(0));
}
