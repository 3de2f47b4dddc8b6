import { methods, parseQueueName } from '@taskmaster/proto';
import { awaitedBytes, readerBytes, recheckOfRead, recheckOfWait } from '@taskmaster/server/calls';
import { decodeCall, queueName } from '@taskmaster/server/requests';
import { withNumbers } from '../upstream/raw-codec.ts';
import { LinkedSignal } from './leasing/linked-signal.ts';
import { isRefusedBy } from './routing/refusals.ts';
import type { RoutedCaller, Router } from './routing/router.ts';

/** Numbers of the fields `wait_ms` in WaitForTasksRequest and ReadEventsRequest. */
const WAIT_FIELD = 2;
const READ_WAIT_FIELD = 7;
/** A reply without ended tasks, and without events. */
const NOTHING = new Uint8Array(0);

/** Waits for tasks at the holder of their group, and goes with the group if it moves. Rejects with a `Refusal`. */
export async function waitForTasks(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const { tasks, waitMs } = decodeCall(methods.waitForTasks, bytes);
  const [first] = tasks;
  if (first === undefined) {
    return router.toAnyNode({ method: 'WaitForTasks', repetition: 'read', request: () => bytes }, caller);
  }
  // The node checks the other tasks: it refuses them if they are of another group.
  const recheck = recheckOfWait(caller.access, parseQueueName(first.queue).group, tasks);
  if (waitMs > 0) caller.beginWaiting?.(awaitedBytes(tasks), recheck);
  return waitAtHolder(router, { method: 'WaitForTasks', bytes, queue: first.queue, waitMs, field: WAIT_FIELD }, caller);
}

/** As `waitForTasks`, for events. */
export async function readEvents(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeCall(methods.readEvents, bytes);
  const { queues: queue, waitMs } = request;
  const recheck = recheckOfRead(caller.access, queueName(queue, { field: 'queues' }).group);
  if (waitMs > 0) caller.beginWaiting?.(readerBytes(request), recheck);
  return waitAtHolder(router, { method: 'ReadEvents', bytes, queue, waitMs, field: READ_WAIT_FIELD }, caller);
}

interface Wait {
  readonly method: 'WaitForTasks' | 'ReadEvents';
  readonly bytes: Buffer;
  /** It says which node holds the group. */
  readonly queue: string;
  readonly waitMs: number;
  /** Number of the field with the waiting time. */
  readonly field: number;
}

/** It changes nothing, so it may be repeated. */
async function waitAtHolder(
  router: Router,
  { method, bytes, queue, waitMs, field }: Wait,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  const began = router.clock.now();
  let attempts = 0;
  const request = (): Uint8Array => {
    // The first attempt sends the request unchanged, so that the holder refuses a wait that is out of range.
    if (attempts++ === 0 || waitMs <= 0) return bytes;
    return withNumbers(bytes, { [field]: Math.max(0, waitMs - (router.clock.now() - began)) });
  };
  using linked = new LinkedSignal(router, caller.signal);
  try {
    const partition = router.partitionOfQueue(queue);
    return await router.toHolder(partition, { method, repetition: 'read', request, signal: linked.signal }, caller);
  } catch (thrown) {
    if (isRefusedBy(thrown, 'CANCELLED') && router.isStopping && !caller.gone) return NOTHING;
    throw thrown;
  }
}
