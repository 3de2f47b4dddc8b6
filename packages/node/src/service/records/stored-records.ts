import { EnqueueMode, type QueueName } from '@taskmaster/proto';
import type { Pid, TaskEngine } from '@taskmaster/server/domain';
import { latin1Of, UpdateRefusal } from '@taskmaster/server/domain';

/** A record of a group: a task in a reserved queue. Its key is the PID. */
export interface StoredRecord {
  readonly key: string;
  readonly data: Uint8Array;
}

const pidOf = (key: string): Pid => latin1Of(Buffer.from(key)) as Pid;
const NO_ITEMS = { enqueue: [], dequeue: [], renew: [], release: [], publishes: false, requestId: undefined };

/** Writes a record, or replaces the one with its key. */
export async function putRecord(engine: TaskEngine, queue: QueueName, key: string, data: Uint8Array): Promise<void> {
  const mode = EnqueueMode.ENQUEUE_MODE_REPLACE;
  const item = {
    queue,
    isPublished: false,
    pid: pidOf(key),
    data,
    headerBytes: 0,
    key: undefined,
    timeLimitMs: undefined,
    mode,
    delayMs: 0,
    runAt: undefined,
    retry: undefined,
  };
  await engine.updateTasks({ ...NO_ITEMS, group: queue.group, enqueue: [item] });
}

/** Deletes a record. Resolves with false if there is none. */
export async function deleteRecord(engine: TaskEngine, queue: QueueName, key: string): Promise<boolean> {
  const item = { queue, pid: pidOf(key), token: undefined, requeue: false, result: undefined, cancelReason: undefined };
  try {
    await engine.updateTasks({ ...NO_ITEMS, group: queue.group, dequeue: [item] });
    return true;
  } catch (error) {
    if (error instanceof UpdateRefusal && error.reason === 'TASK_NOT_FOUND') return false;
    throw error;
  }
}

/** The first records of a queue, in the order of their keys. */
export async function listRecords(engine: TaskEngine, queue: QueueName, limit: number): Promise<StoredRecord[]> {
  const views = await engine.peekTasks({ queue, kind: 'head', limit, includeData: true });
  return views.map(({ pid, data }) => ({
    key: Buffer.from(pid, 'latin1').toString(),
    data: data ?? new Uint8Array(0),
  }));
}
