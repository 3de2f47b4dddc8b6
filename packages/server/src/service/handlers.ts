import type {
  BatchLeaseTasksRequest,
  BatchLeaseTasksResponse,
  BatchUpdateTasksRequest,
  BatchUpdateTasksResponse,
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
  QueueName,
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
import { parseQueueName } from '@taskmaster/proto';
import type { LeaseCommand, TaskEngine } from '../domain/commands.ts';
import type { Log } from '../ports/log.ts';
import { batchLease, batchUpdate, leaseFor, update } from './batch.ts';
import { awaitedBytes, type Caller } from './caller.ts';
import { readableOnly, recheckOfWait } from './check-rights.ts';
import { parseList, parseStats } from './parse/parse-queues.ts';
import { parseGet, parsePeek, parseWait } from './parse/parse-tasks.ts';
import { queueName } from './parse/queue-names.ts';
import {
  deleteQueueSettings,
  groupOfPattern,
  groupOfQueue,
  listQueueSettings,
  putQueueSettings,
} from './records/queue-settings.ts';
import { type ScheduleHandlers, scheduleHandlers } from './records/schedules.ts';
import { listSubscriptions, subscribe, unsubscribe } from './records/topics.ts';
import { leaseReply, listReply, REPLY_BYTES, statsReply } from './reply/build-reply.ts';
import { get, peek } from './reply/fit-reply.ts';
import { waitReply } from './reply/wait-reply.ts';
import { leaseWithin } from './turns/lease-within.ts';

/**
 * The service, independent of transports. Requests are validated only here, so gRPC and in-process callers pass the same checks.
 * A method rejects with a `Refusal`; any other error is a bug.
 */
export interface Handlers extends ScheduleHandlers {
  updateTasks(request: UpdateTasksRequest, caller: Caller): Promise<UpdateTasksResponse>;
  leaseTasks(request: LeaseTasksRequest, caller: Caller): Promise<LeaseTasksResponse>;
  batchUpdateTasks(request: BatchUpdateTasksRequest, caller: Caller): Promise<BatchUpdateTasksResponse>;
  batchLeaseTasks(request: BatchLeaseTasksRequest, caller: Caller): Promise<BatchLeaseTasksResponse>;
  waitForTasks(request: WaitForTasksRequest, caller: Caller): Promise<WaitForTasksResponse>;
  listQueues(request: ListQueuesRequest, caller: Caller): Promise<ListQueuesResponse>;
  getQueueStats(request: GetQueueStatsRequest, caller: Caller): Promise<GetQueueStatsResponse>;
  peekTasks(request: PeekTasksRequest, caller: Caller): Promise<PeekTasksResponse>;
  getTasks(request: GetTasksRequest, caller: Caller): Promise<GetTasksResponse>;
  deleteQueue(request: DeleteQueueRequest, caller: Caller): Promise<DeleteQueueResponse>;
  resetLeases(request: ResetLeasesRequest, caller: Caller): Promise<ResetLeasesResponse>;
  putQueueSettings(request: PutQueueSettingsRequest, caller: Caller): Promise<PutQueueSettingsResponse>;
  deleteQueueSettings(request: DeleteQueueSettingsRequest, caller: Caller): Promise<DeleteQueueSettingsResponse>;
  listQueueSettings(request: ListQueueSettingsRequest, caller: Caller): Promise<ListQueueSettingsResponse>;
  subscribe(request: SubscribeRequest, caller: Caller): Promise<SubscribeResponse>;
  unsubscribe(request: UnsubscribeRequest, caller: Caller): Promise<UnsubscribeResponse>;
  listSubscriptions(request: ListSubscriptionsRequest, caller: Caller): Promise<ListSubscriptionsResponse>;
  /** How many queues a task may go to that is published to this topic. The name may be any text. */
  countOfTopic(topic: string): number;
}

export function createHandlers(engine: TaskEngine, log: Log): Handlers {
  const managed = (full: string, { access }: Caller): QueueName => {
    const queue = queueName(full, { field: 'queue' });
    access.require('manage-queues', queue.group);
    return queue;
  };
  return {
    updateTasks: (request, caller) => update(engine, log, request, caller),
    leaseTasks(request, caller) {
      let command: LeaseCommand;
      try {
        command = leaseFor(request, caller);
      } catch (error) {
        return Promise.reject(error);
      }
      const { maxMoreQueues } = request;
      // This is not an async function: its frame would keep the request in memory, and ten thousand leases may wait.
      return leaseWithin(engine, log, command, caller, REPLY_BYTES, (tasks) =>
        leaseReply(tasks, maxMoreQueues === 0 ? [] : engine.queuesWithTasks(command, maxMoreQueues)),
      );
    },
    batchUpdateTasks: (request, caller) => batchUpdate(engine, log, request, caller),
    batchLeaseTasks: (request, caller) => batchLease(engine, log, request, caller),
    waitForTasks(request, caller) {
      // Not an async function, either.
      try {
        const command = parseWait(request);
        const recheck = recheckOfWait(caller.access, command.group, request.tasks);
        if (command.waitMs > 0) caller.beginWaiting?.(awaitedBytes(request.tasks), recheck);
        const context = command.waitMs > 0 ? { signal: caller.signal } : undefined;
        return engine.waitForTasks(command, context).then(waitReply);
      } catch (error) {
        return Promise.reject(error);
      }
    },
    async listQueues(request, { access }) {
      const command = parseList(request);
      return listReply(await engine.listQueues({ ...command, filter: readableOnly(access, command.filter) }));
    },
    async getQueueStats(request, { access }) {
      const command = parseStats(request);
      if (command.kind === 'named') {
        for (const { group } of command.queues) access.require('read', group);
        return statsReply(await engine.queueStats(command), command.kind);
      }
      const readable = { ...command, filter: readableOnly(access, command.filter) };
      return statsReply(await engine.queueStats(readable), command.kind);
    },
    async peekTasks(request, { access }) {
      const command = parsePeek(request);
      access.require('read', command.queue.group);
      return peek(engine, command);
    },
    async getTasks(request, { access }) {
      const command = parseGet(request);
      access.require('read', command.queue.group);
      return get(engine, command);
    },
    async deleteQueue(request, caller) {
      return { deletedTasks: await engine.deleteQueue(managed(request.queue, caller)) };
    },
    async resetLeases(request, caller) {
      return { resetTasks: await engine.resetLeases(managed(request.queue, caller)) };
    },
    async putQueueSettings(request, { access }) {
      access.require('manage-queues', groupOfPattern(request));
      return putQueueSettings(engine, request);
    },
    async deleteQueueSettings(request, { access }) {
      access.require('manage-queues', groupOfPattern(request));
      return deleteQueueSettings(engine, request);
    },
    async listQueueSettings(request, { access }) {
      access.require('read', groupOfQueue(request));
      return listQueueSettings(engine, request);
    },
    ...scheduleHandlers(engine),
    subscribe: (request, caller) => subscribe(engine, request, caller),
    unsubscribe: (request, caller) => unsubscribe(engine, request, caller),
    listSubscriptions: (request, caller) => listSubscriptions(engine, request, caller),
    countOfTopic: (topic) => engine.topics.countOf(parseQueueName(topic)),
  };
}
