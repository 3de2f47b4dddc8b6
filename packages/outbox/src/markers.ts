import { isTaskMasterError, NewTask, type TaskMasterClient } from '@taskmaster/client';
import { OUTBOX_MARKERS } from '@taskmaster/client/internal';
import { Enqueue, formatQueueName, parseQueueName } from '@taskmaster/proto';
import type { Lane, OutboxRow } from './lanes.ts';

/** What became of a batch: the node has it, it can never come, it may still come, or the node does not know. */
export type Place = 'applied' | 'barred' | 'open' | 'lost';

/**
 * The node's side of a lane. A marker is a task that waits for ever and so is never leased. The update of a batch removes the
 * marker of the batch before it, and leaves its own, together with the tasks or not at all.
 *  M1  A batch is applied at most once, however often and however late it is sent: the marker before it is gone then.
 *  M2  The markers say for ever whether the last batch was applied. Request ids are forgotten after minutes.
 *  M3  Batches of a lane are applied in their order, by whichever relay.
 */
export class Markers {
  readonly #client: TaskMasterClient;

  constructor(client: TaskMasterClient) {
    this.#client = client;
  }

  /** Puts the first marker of a lane. */
  async start(queue: string, marker: string): Promise<void> {
    const update = this.#client
      .update()
      .enqueue(markersOf(queue), null, { pid: marker, mode: 'collapse', waitsFor: 1 });
    await update.commit({ requestId: marker });
  }

  /** Enqueues the tasks of a batch, once. */
  async apply({ queue, marker, batch }: Lane, rows: readonly OutboxRow[]): Promise<void> {
    const update = this.#replacing(queue, marker, batch);
    for (const { task } of rows) update.enqueue(new NewTask(queue, () => Enqueue.decode(task)));
    await update.commit({ requestId: batch });
  }

  /** Sees to it that a batch never comes. Resolves with whether it had come before. */
  async bar(lane: Lane): Promise<Place> {
    try {
      await this.#replacing(lane.queue, lane.marker, barOf(lane.batch)).commit({ requestId: barOf(lane.batch) });
      return 'barred';
    } catch (error) {
      if (!isTaskMasterError(error) || error.maybeApplied || error.retryable) throw error;
      const place = await this.find(lane);
      if (place === 'open') throw error;
      return place;
    }
  }

  /** Reads what became of a batch. */
  async find({ queue, marker, batch }: Lane): Promise<Place> {
    const names = [batch, barOf(batch), marker];
    const states = await this.#client.queue(markersOf(queue)).get(names, { data: false });
    const places: readonly Place[] = ['applied', 'barred', 'open'];
    return places.find((_, at) => states[at]?.state !== 'not-found') ?? 'lost';
  }

  /** Removes the marker of a lane that is forgotten. */
  async end(queue: string, marker: string): Promise<void> {
    try {
      await this.#client.update().dequeue(markersOf(queue), marker).commit();
    } catch (error) {
      if (!isTaskMasterError(error) || error.reason !== 'TASK_NOT_FOUND') throw error;
    }
  }

  #replacing(queue: string, before: string, after: string) {
    const markers = markersOf(queue);
    return this.#client
      .update()
      .dequeue(markers, before)
      .enqueue(markers, null, { pid: after, mode: 'fail', waitsFor: 1 });
  }
}

/** The marker that bars a batch. */
export const barOf = (batch: string): string => `${batch}-`;

const markersOf = (queue: string): string =>
  formatQueueName({ group: parseQueueName(queue).group, name: OUTBOX_MARKERS });
