import { methods, parseQueueName } from '@taskmaster/proto';
import { awaitedBytes, recheckOfWait } from '@taskmaster/server/calls';
import { decodeCall } from '@taskmaster/server/requests';
import { withNumbers } from '../upstream/raw-codec.ts';
import { LinkedSignal } from './leasing/linked-signal.ts';
import { isRefusedBy } from './routing/refusals.ts';
import type { RoutedCaller, Router } from './routing/router.ts';

/** Number of the field `wait_ms` in WaitForTasksRequest. */
const WAIT_FIELD = 2;
const NONE_ENDED = new Uint8Array(0);

/** Waits for tasks at the holder of their group, and goes with the group if it moves. Rejects with a `Refusal`. */
export async function waitForTasks(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const { tasks, waitMs } = decodeCall(methods.waitForTasks, bytes);
  const [first] = tasks;
  // It changes nothing, so it may be repeated.
  const common = { method: 'WaitForTasks', repetition: 'read' } as const;
  if (first === undefined) return router.toAnyNode({ ...common, request: () => bytes }, caller);
  // The node checks the other tasks: it refuses them if they are of another group.
  const recheck = recheckOfWait(caller.access, parseQueueName(first.queue).group, tasks);
  if (waitMs > 0) caller.beginWaiting?.(awaitedBytes(tasks), recheck);
  const began = router.clock.now();
  let attempts = 0;
  const request = (): Uint8Array => {
    // The first attempt sends the request unchanged, so that the holder refuses a wait that is out of range.
    if (attempts++ === 0 || waitMs <= 0) return bytes;
    return withNumbers(bytes, { [WAIT_FIELD]: Math.max(0, waitMs - (router.clock.now() - began)) });
  };
  using linked = new LinkedSignal(router, caller.signal);
  try {
    const partition = router.partitionOfQueue(first.queue);
    return await router.toHolder(partition, { ...common, request, signal: linked.signal }, caller);
  } catch (thrown) {
    if (isRefusedBy(thrown, 'CANCELLED') && router.isStopping && !caller.gone) return NONE_ENDED;
    throw thrown;
  }
}
