import type { ApplyAtom } from '../domain/atom.ts';
import { ByteReader, ByteWriter } from '../domain/bytes.ts';
import type { Instant, Key, Pid, QueueId } from '../domain/ids.ts';
import {
  dueKey,
  lanePrefix,
  metaKeys,
  orderKeyRow,
  queueKey,
  queuePrefix,
  requestKey,
  taskKey,
} from '../domain/keys.ts';
import { dueOf, isInHead, isLeased, laneOf, type TaskState } from '../domain/task.ts';
import { readTaskState, writeTaskState } from '../domain/task-codec.ts';
import { Family } from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

/** Version 2 adds the instant at which the task became due. */
const VERSION = 2;
const EMPTY = new Uint8Array(0);
/** In the index of due times: the task is available, and must start by then. */
const STARTS = new Uint8Array(1);
/** In the index of lanes: the task is leased. */
const LEASED = STARTS;
const writer = new ByteWriter();

/** Decodes a row of the families ready and hidden. */
export function decodeTaskRow(row: Uint8Array): TaskState {
  const from = new ByteReader(row);
  from.version(VERSION, 'task row');
  return readTaskState(from);
}

/** The number of the retry window of an instant; see `requestKey`. */
export const windowOf = (at: Instant, windowMs: number): number => Math.floor(at / windowMs);

/**
 * Adds the rows that are always written with an atom: payloads, the ends of queues, and the outcome of the request. States of
 * tasks are written by `writeTaskRows`. Replay may write the rows again, if it also writes those of all later atoms again.
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

/** The states that the rows of one task may have, and the state that they should have. */
export interface BehindRows {
  /** A state whose rows may be in the store. Most tasks have one at most, so it needs no list: bench rows B3 and B4. */
  readonly earlier: TaskState | undefined;
  /** Further ones. */
  readonly others: readonly TaskState[];
  /** The current state; undefined if the task was removed. */
  readonly now: TaskState | undefined;
}

/**
 * Updates the rows of one task to its current state. They may be written twice, or over newer rows if all later changes are
 * written again, too.
 */
export function writeTaskRows(batch: WriteBatch, prefix: string, pid: Pid, { earlier, others, now }: BehindRows): void {
  const key = taskKey(prefix, pid);
  const due = now && dueOf(now);
  const lane = now && laneKey(prefix, pid, now);
  let ready = now !== undefined && isInHead(now);
  let hidden = now !== undefined && !isInHead(now);
  for (let at = -1; at < others.length; at++) {
    const state = at < 0 ? earlier : others[at];
    if (state === undefined) continue;
    const earlierLane = laneKey(prefix, pid, state);
    if (earlierLane !== undefined && earlierLane !== lane) batch.delete(Family.due, earlierLane);
    if (isInHead(state)) {
      if (!ready) batch.delete(Family.ready, key);
      ready = true;
    } else {
      if (!hidden) batch.delete(Family.hidden, key);
      hidden = true;
    }
    const earlierDue = dueOf(state);
    if (earlierDue !== undefined && earlierDue !== due) batch.delete(Family.due, dueKey(prefix, earlierDue, pid));
  }
  if (now) putState(batch, prefix, key, pid, now);
}

/** The place of a task in the index of lanes. Undefined: it has none. */
function laneKey(prefix: string, pid: Pid, state: TaskState): Key | undefined {
  const lane = laneOf(state);
  if (lane === undefined) return undefined;
  if (state.visibility.kind === 'available') return (lanePrefix(prefix, 'available', lane) + pid) as Key;
  const counts = lane.limitKey !== '' && isLeased(state);
  return counts ? ((lanePrefix(prefix, 'leased', lane) + pid) as Key) : undefined;
}

/** Until when a task is hidden. Undefined: it is available or removed. */
export const untilOf = (state: TaskState | undefined): Instant | undefined =>
  state?.visibility.kind === 'hidden' ? state.visibility.until : undefined;

/** Writes the row of a task and, if it is due some day, its entry in the index of due times. */
export function writeTaskRow(batch: WriteBatch, prefix: string, pid: Pid, state: TaskState): void {
  putState(batch, prefix, taskKey(prefix, pid), pid, state);
}

/** Writes which task is the last one with an order key. */
export function writeLast(batch: WriteBatch, prefix: string, orderKey: string, last: Pid | undefined): void {
  const key = orderKeyRow(prefix, orderKey);
  if (last === undefined) batch.delete(Family.due, key);
  else batch.putText(Family.due, key, last);
}

function writeState(state: TaskState): void {
  writer.byte(VERSION);
  writeTaskState(writer, state, state.history);
}

function putState(batch: WriteBatch, prefix: string, key: Key, pid: Pid, state: TaskState): void {
  const { visibility } = state;
  writeState(state);
  batch.putWritten(isInHead(state) ? Family.ready : Family.hidden, key, writer);
  const lane = laneKey(prefix, pid, state);
  if (lane !== undefined && visibility.kind === 'available') {
    writeState(state);
    batch.putWritten(Family.due, lane, writer);
  } else if (lane !== undefined) batch.put(Family.due, lane, LEASED);
  const due = dueOf(state);
  if (due !== undefined) batch.put(Family.due, dueKey(prefix, due, pid), visibility.kind === 'hidden' ? EMPTY : STARTS);
}
