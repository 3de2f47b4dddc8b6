import { parseQueueName } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import { readUpdate, type UpdateRoute } from '../upstream/raw-codec.ts';
import type { RoutedCall, RoutedCaller, Router } from './routing/router.ts';

type Route = Pick<UpdateRoute, 'queue' | 'hasRequestId' | 'lists' | 'parts'>;

/** The bit of enqueues in `lists`. */
const ENQUEUES = 1 << 1;

/** Sends an update to the holder of its group. Rejects with a `Refusal`. */
export function updateTasks(
  router: Router,
  bytes: Uint8Array,
  caller: RoutedCaller,
  route: Route = routeOf(bytes),
): Promise<Uint8Array> {
  const { queue, hasRequestId } = route;
  try {
    requireUpdate(caller.access, route);
    // The call itself counts already.
    if (route.parts > 1) caller.access.usage?.alsoRequests(route.parts - 1);
  } catch (thrown) {
    return Promise.reject(thrown);
  }
  const call: RoutedCall = {
    method: 'UpdateTasks',
    request: () => bytes,
    repetition: hasRequestId ? 'once' : 'unsafe',
  };
  return queue === undefined
    ? router.toAnyNode(call, caller)
    : router.toHolder(router.partitionOfQueue(queue), call, caller);
}

/** A node checks the same for each item. An update of several groups is refused there. */
function requireUpdate(access: CallerAccess, { queue, lists }: Route): void {
  if (access.isUnlimited || queue === undefined) return;
  const { group } = parseQueueName(queue);
  if ((lists & ENQUEUES) !== 0) access.require('enqueue', group);
  if ((lists & ~ENQUEUES) !== 0) access.require('lease', group);
}

function routeOf(bytes: Uint8Array): Route {
  try {
    return readUpdate(bytes);
  } catch {
    return { queue: undefined, hasRequestId: false, lists: 0, parts: 0 }; // The request is not valid. A node refuses it.
  }
}
