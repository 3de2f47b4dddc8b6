import { bytesCodec, isTaskMasterError, type LeasedTask, type TaskMasterClient } from '@taskmaster/client';
import { sleep, type Timing } from '@taskmaster/client/internal';

export interface DrainOptions {
  readonly client: TaskMasterClient;
  readonly timing: Timing;
  readonly queues: readonly string[];
  /** Longest time for all queues, in ms. */
  readonly withinMs: number;
  readonly onTask: (task: LeasedTask<Uint8Array>) => void;
}

/** What the statistics of a queue said before it was drained, and what was in it. */
export interface DrainedQueue {
  readonly queue: string;
  readonly counted: number;
  readonly found: number;
}

/** The queues could not be read completely, so nothing is known of the tasks that are left. */
export class DrainFailedError extends Error {
  override readonly name = 'DrainFailedError';
}

const BATCH_TASKS = 1_000;
const LEASE_MS = 60_000;
/** Queues that are drained at the same time. */
const TOGETHER = 8;
const POLL_MS = 200;

/**
 * Takes all tasks out of queues that no other client uses. It looks at each queue
 * twice, because an update that was given up may arrive late.
 */
export async function drainQueues(options: DrainOptions): Promise<readonly DrainedQueue[]> {
  const deadline = options.timing.now() + options.withinMs;
  const drained = new Map<string, { readonly counted: number; readonly found: number }>();
  const waiting = [...options.queues];
  const lane = async (): Promise<void> => {
    for (let queue = waiting.shift(); queue !== undefined; queue = waiting.shift()) {
      await resetLeases(options, queue, deadline);
      const counted = await sizeOf(options, queue, deadline);
      drained.set(queue, { counted, found: await drainQueue(options, queue, deadline) });
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, lane));
  for (const [queue, { counted, found }] of drained) {
    drained.set(queue, { counted, found: found + (await drainQueue(options, queue, deadline)) });
  }
  return [...drained].map(([queue, figures]) => ({ queue, ...figures }));
}

/** Takes all tasks out of a queue, also those that are hidden now. Resolves with their number. */
async function drainQueue(options: DrainOptions, name: string, deadline: number): Promise<number> {
  const { client, timing, onTask } = options;
  const queue = client.queue(name, { codec: bytesCodec });
  let found = 0;
  for (;;) {
    const tasks = await queue.lease({ max: BATCH_TASKS, leaseDuration: LEASE_MS, ...timeoutAt(timing, deadline) });
    if (tasks.length > 0) {
      const completion = client.update();
      for (const task of tasks) {
        onTask(task);
        completion.complete(task);
      }
      await completion.commit(timeoutAt(timing, deadline));
      found += tasks.length;
      continue;
    }
    const { available, leased, delayed } = await queue.stats(timeoutAt(timing, deadline));
    if (available + leased + delayed === 0) return found;
    // A lease whose reply was lost. Its tasks would come back only when it ends.
    if (leased > 0) await resetLeases(options, name, deadline);
    await sleep(timing, POLL_MS);
  }
}

/** Repeats it until there is an answer: nothing else leases tasks of these queues. */
async function resetLeases({ client, timing }: DrainOptions, name: string, deadline: number): Promise<void> {
  for (;;) {
    try {
      await client.queue(name).resetLeases(timeoutAt(timing, deadline));
      return;
    } catch (error) {
      if (!isTaskMasterError(error) || !error.maybeApplied) throw error;
    }
  }
}

async function sizeOf({ client, timing }: DrainOptions, name: string, deadline: number): Promise<number> {
  const { available, leased, delayed } = await client.queue(name).stats(timeoutAt(timing, deadline));
  return available + leased + delayed;
}

function timeoutAt(timing: Timing, deadline: number): { readonly timeout: number } {
  const left = deadline - timing.now();
  if (left <= 0) throw new DrainFailedError('the queues could not be emptied in time');
  return { timeout: left };
}
