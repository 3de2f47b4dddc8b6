import { isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import { sleep, type Timing } from '@taskmaster/client/internal';
import type { Instance } from '../workload/settings.ts';
import { QueuesInUseError } from './load-queues.ts';

/*
 * Instances on different machines start together: each adds a task to one queue of the cluster, with its number as the PID, and
 * starts when the queue has the tasks of all. So they need no common clock, no addresses, and nothing beside the cluster.
 */

/** Not all instances have come in time. */
export class RendezvousError extends Error {
  override readonly name = 'RendezvousError';
}

export interface RendezvousOptions {
  readonly client: TaskMasterClient;
  readonly timing: Timing;
  readonly group: string;
  readonly instance: Instance;
  /** Takes the place of an instance that did not leave, because it was killed. */
  readonly force: boolean;
  readonly withinMs: number;
  readonly signal: AbortSignal;
}

/** Time between two looks, in ms. So far apart instances start. */
const POLL_MS = 100;

const queueOf = (group: string): string => `${group}#start`;
const pidOf = (index: number): string => `instance-${String(index).padStart(4, '0')}`;

/** Tells the others that this instance has come. @throws QueuesInUseError */
export async function arrive({ client, group, instance, force, signal }: RendezvousOptions): Promise<void> {
  const pid = pidOf(instance.index);
  try {
    await client.queue(queueOf(group)).enqueue({}, { pid, mode: force ? 'replace' : 'fail', signal });
  } catch (error) {
    if (!isTaskMasterError(error) || error.reason !== 'TASK_EXISTS') throw error;
    throw new QueuesInUseError(`instance ${instance.index} of this load runs already, or was killed`);
  }
}

/** Waits until all instances have come. @throws RendezvousError, the reason of the signal. */
export async function waitForAll({ client, timing, ...options }: RendezvousOptions): Promise<void> {
  const { group, instance, withinMs, signal } = options;
  const queue = client.queue(queueOf(group));
  const pids = Array.from({ length: instance.count }, (_, index) => pidOf(index));
  const deadline = timing.now() + withinMs;
  for (;;) {
    const tasks = await queue.get(pids, { data: false, signal });
    const missing = tasks.filter(({ state }) => state === 'not-found').length;
    if (missing === 0) return;
    if (timing.now() >= deadline) {
      throw new RendezvousError(`${missing} of ${instance.count} instances did not come`);
    }
    await sleep(timing, POLL_MS, signal);
  }
}

/** Removes the task of this instance. Call it at the end of the load, when no other instance looks for it any more. */
export async function leave(client: TaskMasterClient, group: string, { index }: Instance): Promise<void> {
  try {
    await client.update().dequeue(queueOf(group), pidOf(index)).commit();
  } catch (error) {
    if (!isTaskMasterError(error) || error.reason !== 'TASK_NOT_FOUND') throw error;
  }
}
