import { parseQueueName, type UpdateTasksRequest } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import { countRequests } from '@taskmaster/server/calls';
import { queueName, refuseEmptyUpdate } from '@taskmaster/server/requests';
import type { RoutedCall, RoutedCaller, Router } from './routing/router.ts';

/** The facts about an update that routing needs. */
export interface UpdateRoute {
  /** A queue or a topic of the group. */
  readonly queue: string;
  readonly creates: boolean;
  /** Whether it completes, renews or releases tasks. */
  readonly changes: boolean;
  /** True if the update has a request id, so that it can be repeated. */
  readonly hasRequestId: boolean;
  /** Number of parts. 0: the request is one update. */
  readonly parts: number;
}

/**
 * The route of a decoded update. An update is decoded before it is sent anywhere: a decoder that reads less could read something
 * else than the node, and a damaged update would end the stream that it shares with others. Throws the `Refusal` of an update
 * that names no queue.
 */
export function routeOf(request: UpdateTasksRequest): UpdateRoute {
  const { enqueue, dequeue, renew, release, requestId, parts } = request;
  return {
    queue: queueIn(request),
    creates: enqueue.length > 0,
    changes: dequeue.length + renew.length + release.length > 0,
    hasRequestId: requestId.length > 0,
    parts: parts.length,
  };
}

/** The name in the first item that has one. A node refuses an update of several groups. Throws the `Refusal` if there is none. */
function queueIn({ enqueue, dequeue, renew, release }: UpdateTasksRequest): string {
  for (const { topic, queue } of enqueue) if (topic || queue) return topic || queue;
  for (const list of [dequeue, renew, release]) for (const { queue } of list) if (queue) return queue;
  const [list] =
    Object.entries({ enqueue, dequeue, renew, release }).find(([, items]) => items.length > 0) ?? refuseEmptyUpdate();
  return queueName('', { list, index: 0, field: 'queue' }).name;
}

/** Sends an update to the holder of its group. Rejects with a `Refusal`. */
export function updateTasks(
  router: Router,
  bytes: Uint8Array,
  route: UpdateRoute,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  const { queue, hasRequestId } = route;
  try {
    requireUpdate(caller.access, route);
    countRequests(caller, route.parts - 1);
  } catch (thrown) {
    return Promise.reject(thrown);
  }
  const call: RoutedCall = {
    method: 'UpdateTasks',
    request: () => bytes,
    repetition: hasRequestId ? 'harmless' : 'unsafe',
  };
  return router.toHolder(router.partitionOfQueue(queue), call, caller);
}

/** A node checks the same for each item. */
function requireUpdate(access: CallerAccess, { queue, creates, changes }: UpdateRoute): void {
  if (access.isUnlimited) return;
  const { group } = parseQueueName(queue);
  if (creates) access.require('enqueue', group);
  if (changes) access.require('lease', group);
}
