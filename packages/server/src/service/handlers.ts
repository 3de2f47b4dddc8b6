import type {
  BatchLeaseTasksRequest,
  BatchLeaseTasksResponse,
  BatchUpdateTasksRequest,
  BatchUpdateTasksResponse,
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
  ResetLeasesRequest,
  ResetLeasesResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import type { LeaseCommand, TaskEngine } from '../domain/commands.ts';
import type { Log } from '../ports/log.ts';
import { batchLease, batchUpdate } from './batch.ts';
import { type Caller, waitingBytes } from './caller.ts';
import { parseLease } from './parse/parse-lease.ts';
import { parseList, parseStats } from './parse/parse-queues.ts';
import { parseGet, parsePeek } from './parse/parse-tasks.ts';
import { parseUpdate } from './parse/parse-update.ts';
import { queueName } from './parse/queue-names.ts';
import { leaseReply, listReply, REPLY_BYTES, statsReply, updateReply } from './reply/build-reply.ts';
import { get, peek } from './reply/fit-reply.ts';
import { leaseWithin } from './turns/lease-within.ts';

/**
 * The service, independent of transports. Requests are validated only here, so gRPC and in-process callers pass the same checks.
 * A method rejects with a `Refusal`; any other error is a bug.
 */
export interface Handlers {
  updateTasks(request: UpdateTasksRequest): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest, caller: Caller): Promise<LeaseTasksResponse>;
  batchUpdateTasks(request: BatchUpdateTasksRequest): Promise<BatchUpdateTasksResponse>;
  batchLeaseTasks(request: BatchLeaseTasksRequest, caller: Caller): Promise<BatchLeaseTasksResponse>;
  listQueues(request: ListQueuesRequest): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest): Promise<ResetLeasesResponse>;
}

export function createHandlers(engine: TaskEngine, log: Log): Handlers {
  return {
    async updateTasks(request) {
      return updateReply(await engine.updateTasks(parseUpdate(request)));
    },
    leaseTasks(request, caller) {
      let command: LeaseCommand;
      try {
        command = parseLease(request, caller.address);
        if (command.waitMs > 0) caller.beginWaiting?.(waitingBytes(request.queues));
      } catch (error) {
        return Promise.reject(error);
      }
      // This is not an async function: its frame would keep the request in memory, and ten thousand leases may wait.
      return leaseWithin(engine, log, command, caller, REPLY_BYTES, leaseReply);
    },
    batchUpdateTasks: (request) => batchUpdate(engine, log, request),
    batchLeaseTasks: (request, caller) => batchLease(engine, log, request, caller),
    async listQueues(request) {
      return listReply(await engine.listQueues(parseList(request)));
    },
    async getQueueStats(request) {
      const command = parseStats(request);
      return statsReply(await engine.queueStats(command), command.kind);
    },
    peekTasks: (request) => peek(engine, parsePeek(request)),
    getTasks: (request) => get(engine, parseGet(request)),
    async deleteQueue(request) {
      return { deletedTasks: await engine.deleteQueue(queueName(request.queue, { field: 'queue' })) };
    },
    async resetLeases(request) {
      return { resetTasks: await engine.resetLeases(queueName(request.queue, { field: 'queue' })) };
    },
  };
}
