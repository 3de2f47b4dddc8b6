import type { TaskMasterClient } from '@taskmaster/client';
import type { Row } from './board.ts';

/** Puts a dead letter back where it came from, or lets the next attempt of a failed task begin now. */
export async function retry(client: TaskMasterClient, { queue, pid, state }: Row): Promise<void> {
  if (state === 'dead') await client.update().requeue(queue, pid).commit();
  else await client.queue(queue).reschedule(pid, 0);
}

/** Removes a task for ever. */
export async function drop(client: TaskMasterClient, { queue, pid }: Row): Promise<void> {
  await client.update().dequeue(queue, pid).commit();
}
