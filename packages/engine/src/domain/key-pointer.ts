import { createHash } from 'node:crypto';
import { limits, type QueueName, reservedQueues } from '@taskmaster/proto';
import { ByteReader, ByteWriter, latin1Of } from './bytes.ts';
import type { Pid, QueueId } from './ids.ts';
import { NO_LINKS, type TaskParent, type TaskState } from './task.ts';
import { readParents, writeParents } from './task-codec.ts';

// Where the task with a key is: a task in a reserved queue of the group. Its payload is the PID of the task with the key.

/** The PID of a pointer begins with the id of the queue, so pointers of an ended generation are never found. */
export const pointerPid = (queueId: QueueId, key: string): Pid =>
  (pointersOf(queueId) + latin1Of(Buffer.from(key))) as Pid;

/** The first part of the PIDs of all pointers of a queue. */
export const pointersOf = (queueId: QueueId): string => queueId.toString(16).padStart(QUEUE_DIGITS, '0');
const QUEUE_DIGITS = 12;

/** UTF-8 has no such byte, so that no key is taken for one of the records below. */
const OTHER = '\xff';

/** The record of a task that has parents, for the case that its queue is deleted. */
export const childPid = (queueId: QueueId, pid: Pid): Pid => otherPid(queueId, 'c', pid);

/** The box of signals of a task. */
export const boxPid = (queueId: QueueId, pid: Pid): Pid => otherPid(queueId, 'b', pid);

/** The first part of the PIDs of the records of all tasks of a queue that have parents. */
export const childrenOf = (queueId: QueueId): string => `${pointersOf(queueId)}${OTHER}c`;

const isOther = (pid: Pid, kind: string): boolean => pid.startsWith(OTHER + kind, QUEUE_DIGITS);
/** Whether the record is that of a task with parents. */
export const isChildPid = (pid: Pid): boolean => isOther(pid, 'c');

function otherPid(queueId: QueueId, kind: string, rest: string): Pid {
  const plain = pointersOf(queueId) + OTHER + kind + rest;
  if (plain.length <= limits.pidBytes) return plain as Pid;
  return (pointersOf(queueId) + OTHER + kind + createHash('sha256').update(rest, 'latin1').digest('hex')) as Pid;
}

/** The queue of a pointer. */
export const queueOfPointer = (pid: Pid): QueueId => Number.parseInt(pid.slice(0, QUEUE_DIGITS), 16) as QueueId;

export const pointerData = (pid: Pid): Uint8Array => Buffer.from(pid, 'latin1');
export const pidIn = (data: Uint8Array): Pid => latin1Of(data) as Pid;

/** The key by which a task is found in its queue. A dead letter keeps its key for the way back, and is not found by it. */
export const keyOf = ({ history }: TaskState): string | undefined =>
  history?.origin === undefined ? history?.key : undefined;

/** What is kept of a completed task with this key stands under this name. No queue of users has it. */
export const endOfKey = ({ group, name }: QueueName, key: string): { readonly name: QueueName; readonly pid: Pid } => ({
  name: { group, name: `${reservedQueues.keys}/${name}` },
  pid: latin1Of(Buffer.from(key)) as Pid,
});

/** A task that has parents. */
export interface Child {
  readonly parents: readonly TaskParent[];
  /** The name of its queue within the group, and its PID there. Of a dead letter: those that it had. */
  readonly queue: string;
  readonly pid: Pid;
  /** Its key. With one, its end counts once whatever its PID is. */
  readonly key: string | undefined;
}

/** The task as a child. Undefined: it has no parents. */
export function childOf(queue: string, pid: Pid, { history }: TaskState): Child | undefined {
  const { parents } = history?.links ?? NO_LINKS;
  if (parents.length === 0) return undefined;
  const origin = history?.origin;
  return { parents, queue: origin?.queue ?? queue, pid: origin?.died?.pid ?? pid, key: history?.key };
}

const VERSION = 1;
const writer = new ByteWriter();

export function encodeChild({ parents, queue, pid, key }: Child): Uint8Array {
  writer.byte(VERSION);
  writeParents(writer, parents);
  writer.utf8(queue);
  writer.latin1(pid);
  writer.byte(key === undefined ? 0 : 1);
  if (key !== undefined) writer.utf8(key);
  return new Uint8Array(writer.view());
}

export function decodeChild(bytes: Uint8Array): Child {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'record of a child');
  const child = { parents: readParents(from), queue: from.utf8(), pid: from.latin1() as Pid };
  return { ...child, key: from.byte() === 1 ? from.utf8() : undefined };
}
