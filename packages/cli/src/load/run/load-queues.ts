import { isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';

/** The queues of a load hold tasks before it starts. */
export class QueuesInUseError extends Error {
  override readonly name = 'QueuesInUseError';
}

/** Names in one request. */
const TOGETHER = 1_000;
/** Rounds of deletions: an update that was given up may arrive after the first one. */
const ROUNDS = 5;

/** @throws QueuesInUseError */
export async function assertEmpty(client: TaskMasterClient, queues: readonly string[]): Promise<void> {
  const used = await usedOf(client, queues);
  const [first] = used;
  if (first === undefined) return;
  const others = used.length === 1 ? '' : `, and ${used.length - 1} other queues of the load`;
  throw new QueuesInUseError(`${first} has tasks${others}`);
}

/** Deletes the queues that hold tasks. Resolves with those that still do. */
export async function deleteQueues(client: TaskMasterClient, queues: readonly string[]): Promise<readonly string[]> {
  let used = await usedOf(client, queues);
  for (let round = 0; round < ROUNDS && used.length > 0; round++) {
    await Promise.all(used.map((queue) => deleteQueue(client, queue)));
    used = await usedOf(client, used);
  }
  return used;
}

async function deleteQueue(client: TaskMasterClient, queue: string): Promise<void> {
  try {
    await client.queue(queue).delete();
  } catch (error) {
    // The next round looks whether it is gone.
    if (!isTaskMasterError(error) || !error.maybeApplied) throw error;
  }
}

/** Those that hold tasks. */
async function usedOf(client: TaskMasterClient, names: readonly string[]): Promise<string[]> {
  const used: string[] = [];
  for (let at = 0; at < names.length; at += TOGETHER) {
    const { queues } = await client.stats({ queues: names.slice(at, at + TOGETHER) });
    for (const { queue, available, leased, delayed } of queues) {
      if (available + leased + delayed > 0) used.push(queue);
    }
  }
  return used;
}
