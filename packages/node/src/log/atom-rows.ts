import type { ApplyAtom, TaskChange } from '../domain/atom.ts';
import { ByteWriter } from '../domain/bytes.ts';
import type { Instant, Key, Pid, QueueId } from '../domain/ids.ts';
import { dueKey, metaKeys, queueKey, queuePrefix, requestKey, taskKey } from '../domain/keys.ts';
import type { TaskState } from '../domain/task.ts';
import { writeTaskState } from '../domain/task-codec.ts';
import { Family } from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

const VERSION = 1;
const EMPTY = new Uint8Array(0);
const writer = new ByteWriter();

/** Version of the rows in the families ready and hidden, by their first byte. */
export const TASK_ROW_VERSION = VERSION;

/** Which retry window an instant is in; see `requestKey`. */
export const windowOf = (at: Instant, windowMs: number): number => Math.floor(at / windowMs);

/**
 * Adds the row changes of an atom to a batch: for commit and for replay alike, so writing them twice must be harmless.
 * It is: every change writes whole rows.
 */
export function writeRows(atom: ApplyAtom, batch: WriteBatch, requestWindowMs: number): void {
  let queueId: QueueId | undefined;
  let prefix = '';
  for (const change of atom.changes) {
    if (change.queueId !== queueId) {
      queueId = change.queueId;
      prefix = queuePrefix(atom.partition, queueId);
    }
    writeChange(batch, prefix, change);
  }
  for (const { queueId, reap } of atom.dropped) {
    batch.delete(Family.queues, queueKey(atom.partition, queueId));
    if (reap) batch.put(Family.meta, metaKeys.reap(atom.partition, queueId), EMPTY);
  }
  if (atom.request) {
    const key = requestKey(atom.partition, windowOf(atom.at, requestWindowMs), atom.request.id);
    batch.putText(Family.requests, key, atom.request.outcome);
  }
}

function writeChange(batch: WriteBatch, prefix: string, change: TaskChange): void {
  const key = taskKey(prefix, change.pid);
  const before = change.kind === 'enqueue' ? undefined : change.before;
  const after = change.kind === 'dequeue' ? undefined : change.after;
  const isHidden = after?.visibility.kind === 'hidden';

  if (before?.visibility.kind === 'hidden') {
    if (!isHidden) batch.delete(Family.hidden, key);
    batch.delete(Family.due, dueKey(prefix, before.visibility.until, change.pid));
  } else if (before && (after === undefined || isHidden)) {
    batch.delete(Family.ready, key);
  }
  if (after) writeState(batch, prefix, key, change.pid, after);
  if (change.kind === 'dequeue') batch.delete(Family.data, key);
  else if (change.data) batch.put(Family.data, key, change.data);
}

/** The row of a task, and its place in the index by instant. */
export function writeTaskRow(batch: WriteBatch, prefix: string, pid: Pid, state: TaskState): void {
  writeState(batch, prefix, taskKey(prefix, pid), pid, state);
}

function writeState(batch: WriteBatch, prefix: string, key: Key, pid: Pid, state: TaskState): void {
  writer.byte(VERSION);
  writeTaskState(writer, state);
  const { visibility } = state;
  batch.putWritten(visibility.kind === 'hidden' ? Family.hidden : Family.ready, key, writer);
  if (visibility.kind === 'hidden') batch.put(Family.due, dueKey(prefix, visibility.until, pid), EMPTY);
}
