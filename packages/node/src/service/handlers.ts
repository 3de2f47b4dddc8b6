import type { Engine } from '@taskmaster/engine';
import { type EventsReply, eventsReply, type LeaseCommand } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  methods,
  parseQueueName,
  type ReplyOf,
  type RequestOf,
  type TaskMethodKey,
  taskMethodKeys,
} from '@taskmaster/proto';
import {
  awaitedBytes,
  type Caller,
  REPLY_BYTES,
  readerBytes,
  recheckOfRead,
  recheckOfWait,
  type TaskHandlers,
} from '@taskmaster/server/calls';
import { groupOf, queueIn } from '@taskmaster/server/requests';
import { batchLease, batchUpdate, leaseFor } from './batch.ts';
import { bulkHandlers } from './handlers/bulk-runs.ts';
import { limitHandlers } from './handlers/limits.ts';
import { pauseHandlers } from './handlers/pauses.ts';
import { settingsHandlers } from './handlers/queue-settings.ts';
import { scheduleHandlers } from './handlers/schedules.ts';
import { topicHandlers } from './handlers/topics.ts';
import { watchedQueueHandlers } from './handlers/watched-queues.ts';
import { parseGet, parsePeek, parseReadEvents, parseWait } from './parse-tasks.ts';
import { leaseReply } from './reply/build-reply.ts';
import { get, peek } from './reply/fit-reply.ts';
import { waitReply } from './reply/wait-reply.ts';
import { leaseWithin } from './turns/lease-within.ts';
import { updateHandlers } from './updates.ts';
import { QueueWatch } from './watch/queue-watch.ts';

/**
 * The service, independent of transports. Requests are validated only here, so gRPC and in-process callers pass the same checks.
 * A method rejects with a `Refusal`; any other error is a bug.
 */
export interface Handlers extends TaskHandlers {
  /** How many queues a task may go to that is published to this topic. The name may be any text. */
  countOfTopic(topic: string): number;
  readEvents(request: RequestOf<'readEvents'>, caller: Caller): Promise<EventsReply>;
}

/** `watch`: what looks at the queues all the time. Default: one that looks when it is asked. */
export function createHandlers(engine: Engine, log: Log, watch: QueueWatch = new QueueWatch(engine)): Handlers {
  return withGroupRights({
    ...updateHandlers(engine, log),
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
        leaseReply(tasks, maxMoreQueues === 0 ? undefined : engine.queuesWithTasks(command, maxMoreQueues)),
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
    async readEvents(request, caller) {
      const command = parseReadEvents(request);
      const recheck = recheckOfRead(caller.access, command.group);
      if (command.waitMs > 0) caller.beginWaiting?.(readerBytes(request), recheck);
      return eventsReply(await engine.readEvents(command, { signal: caller.signal }));
    },
    ...watchedQueueHandlers(engine, watch),
    peekTasks: async (request) => peek(engine, parsePeek(request)),
    getTasks: async (request) => get(engine, parseGet(request)),
    deleteQueue: async ({ queue }) => ({ deletedTasks: await engine.deleteQueue(queueIn(queue)) }),
    resetLeases: async ({ queue }) => ({ resetTasks: await engine.resetLeases(queueIn(queue)) }),
    ...settingsHandlers(engine),
    ...pauseHandlers(engine),
    ...limitHandlers(engine),
    ...bulkHandlers(engine),
    ...scheduleHandlers(engine),
    ...topicHandlers(engine),
    countOfTopic: (topic) => engine.topics.countOf(parseQueueName(topic)),
  });
}

/** Has the methods about one group check first the right that they take. */
function withGroupRights(handlers: Handlers): Handlers {
  const unguarded: TaskHandlers = handlers;
  const guarded = <K extends TaskMethodKey>(key: K) => {
    const { scope } = methods[key];
    const handle: (request: RequestOf<K>, caller: Caller) => Promise<ReplyOf<K>> = unguarded[key];
    if (scope.of !== 'group') return handle;
    return async (request: RequestOf<K>, caller: Caller) => {
      caller.access.require(scope.right, groupOf(scope, request));
      return handle(request, caller);
    };
  };
  return { ...handlers, ...Object.fromEntries(taskMethodKeys.map((key) => [key, guarded(key)])) };
}
