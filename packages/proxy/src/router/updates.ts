import { readUpdate, type UpdateRoute } from '../upstream/raw-codec.ts';
import type { RoutedCall, RoutedCaller, Router } from './routing/router.ts';

/** Sends an update to the holder of its group. Rejects with a `Refusal`. */
export function updateTasks(
  router: Router,
  bytes: Uint8Array,
  caller: RoutedCaller,
  { queue, hasRequestId }: Pick<UpdateRoute, 'queue' | 'hasRequestId'> = routeOf(bytes),
): Promise<Uint8Array> {
  const call: RoutedCall = {
    method: 'UpdateTasks',
    request: () => bytes,
    repetition: hasRequestId ? 'once' : 'unsafe',
  };
  return queue === undefined
    ? router.toAnyNode(call, caller)
    : router.toHolder(router.partitionOfQueue(queue), call, caller);
}

function routeOf(bytes: Uint8Array): Pick<UpdateRoute, 'queue' | 'hasRequestId'> {
  try {
    return readUpdate(bytes);
  } catch {
    return { queue: undefined, hasRequestId: false }; // The request is not valid. A node refuses it.
  }
}
