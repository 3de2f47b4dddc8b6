import { type QueueName, reservedQueues } from '@taskmaster/proto';
import { latin1Of } from './bytes.ts';
import type { Pid, QueueId } from './ids.ts';
import type { TaskState } from './task.ts';

// Where the task with a key is: a task in a reserved queue of the group. Its payload is the PID of the task with the key.

/** The PID of a pointer begins with the id of the queue, so pointers of an ended generation are never found. */
export const pointerPid = (queueId: QueueId, key: string): Pid =>
  (pointersOf(queueId) + latin1Of(Buffer.from(key))) as Pid;

/** The first part of the PIDs of all pointers of a queue. */
export const pointersOf = (queueId: QueueId): string => queueId.toString(16).padStart(QUEUE_DIGITS, '0');
const QUEUE_DIGITS = 12;

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
