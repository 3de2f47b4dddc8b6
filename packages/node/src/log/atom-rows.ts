import { ByteWriter, type Instant, type Key, type Pid, type QueueId, type TaskState } from '@taskmaster/server/domain';
import type { ApplyAtom } from '../domain/atom.ts';
import { dueKey, metaKeys, queueKey, queuePrefix, requestKey, taskKey } from '../domain/keys.ts';
import { writeTaskState } from '../domain/task-codec.ts';
import { Family } from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

/** From 2 on with the instant at which the task became due. */
const VERSION = 2;
const EMPTY = new Uint8Array(0);
const writer = new ByteWriter();

/** Version of the rows in the families ready and hidden, by their first byte. */
export const TASK_ROW_VERSION = VERSION;

/** Which retry window an instant is in; see `requestKey`. */
export const windowOf = (at: Instant, windowMs: number): number => Math.floor(at / windowMs);

/**
 * Adds the rows that are written with an atom: payloads, the states of new tasks, the ends of queues, the outcome of its
 * request. What becomes of tasks that were there follows later, by `writeTaskRows`. Writing them twice, at a replay, is
 * harmless where all atoms behind the first are written again, with their payloads.
 */
export function writeRows(atom: ApplyAtom, batch: WriteBatch, requestWindowMs: number): void {
  let queueId: QueueId | undefined;
  let prefix = '';
  for (const change of atom.changes) {
    if (change.kind === 'change' && !change.data) continue;
    if (change.queueId !== queueId) {
      queueId = change.queueId;
      prefix = queuePrefix(atom.partition, queueId);
    }
    const key = taskKey(prefix, change.pid);
    if (change.kind === 'dequeue') batch.delete(Family.data, key);
    else if (change.data) batch.put(Family.data, key, change.data);
    if (change.kind === 'enqueue') putState(batch, prefix, key, change.pid, change.after);
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

/** What the rows of one task may say, and what they are to say; undefined: there is no such task. */
export interface BehindRows {
  /** Each state whose rows may be there. None where the task was not there either. */
  readonly earlier: readonly TaskState[];
  readonly now: TaskState | undefined;
}

/**
 * Brings the rows of one task up to what it is now. Writing them twice is harmless, and so is writing them where they are
 * further already, if all changes up to there follow.
 */
export function writeTaskRows(batch: WriteBatch, prefix: string, pid: Pid, { earlier, now }: BehindRows): void {
  const key = taskKey(prefix, pid);
  const until = untilOf(now);
  const isHidden = until !== undefined;
  let ready = now !== undefined && !isHidden;
  let hidden = isHidden;
  for (const state of earlier) {
    const earlierUntil = untilOf(state);
    if (earlierUntil === undefined) {
      if (!ready) batch.delete(Family.ready, key);
      ready = true;
      continue;
    }
    if (!hidden) batch.delete(Family.hidden, key);
    hidden = true;
    if (earlierUntil !== until) batch.delete(Family.due, dueKey(prefix, earlierUntil, pid));
  }
  if (now) putState(batch, prefix, key, pid, now);
}

const untilOf = (state: TaskState | undefined): Instant | undefined =>
  state?.visibility.kind === 'hidden' ? state.visibility.until : undefined;

/** The row of a task, and its place in the index by instant. */
export function writeTaskRow(batch: WriteBatch, prefix: string, pid: Pid, state: TaskState): void {
  putState(batch, prefix, taskKey(prefix, pid), pid, state);
}

function putState(batch: WriteBatch, prefix: string, key: Key, pid: Pid, state: TaskState): void {
  writer.byte(VERSION);
  writeTaskState(writer, state);
  const { visibility } = state;
  batch.putWritten(visibility.kind === 'hidden' ? Family.hidden : Family.ready, key, writer);
  if (visibility.kind === 'hidden') batch.put(Family.due, dueKey(prefix, visibility.until, pid), EMPTY);
}
