import { formatQueueName, limits, pidText, type QueueName } from '@taskmaster/proto';
import type { Instant, Pid } from '../../domain/ids.ts';
import { type Child, childOf } from '../../domain/key-pointer.ts';
import type { ChildEnd, KeptSignal } from '../../domain/signal-box.ts';
import { isTooLate, type TaskParent, type TaskState } from '../../domain/task.ts';
import type { Queue } from '../../queues/queue.ts';
import type { NotedEnd, TaskDraft } from '../task-draft.ts';
import { leaveOrder } from './order.ts';
import { awaited, boxOf, countSignal, removeBox } from './signal.ts';
import { withWaits } from './waiting.ts';

const EMPTY = new Uint8Array(0);

/**
 * What the ends in a draft mean for other tasks: the next task with an order key is free, and parents hear of their children.
 * It is decided after all items of an update, which refer to the tasks as they were before it. If something must be read first,
 * it goes on, so that one read fetches what all ends need.
 */
export function settleEnds(draft: TaskDraft, now: Instant): void {
  const ends = draft.takeEnds();
  if (ends.length === 0) return;
  const byQueue = new Map<Queue, Map<Pid, TaskState>>();
  for (const { queue, pid, state } of ends) {
    const ofQueue = byQueue.get(queue);
    if (ofQueue === undefined) byQueue.set(queue, new Map([[pid, state]]));
    else ofQueue.set(pid, state);
  }
  const hasEnded = (queue: Queue, pid: Pid): boolean => byQueue.get(queue)?.has(pid) === true;
  for (const { queue, pid, state } of ends) if (state.history?.waits?.box) removeBox(draft, queue, pid);
  for (const [queue, ended] of byQueue) {
    const left = new Set(ended.keys());
    for (const pid of left) for (const taken of leaveOrder(draft, queue, pid, ended, now)) left.delete(taken);
  }
  for (const { queue, pid, state, ...how } of ends) {
    const { name } = queue.ledger;
    const child = childOf(name.name, pid, state);
    if (child !== undefined) tellParents(draft, name.group, child, how, now, hasEnded);
  }
}

/** How a child has ended. */
export type HowEnded = Pick<NotedEnd, 'end' | 'result' | 'reason'>;

/**
 * Tells its parents of the end of a child.
 * @param hasEnded whether a task has ended in the same update
 */
export function tellParents(
  draft: TaskDraft,
  group: string,
  child: Child,
  how: HowEnded,
  now: Instant,
  hasEnded: (queue: Queue, pid: Pid) => boolean = () => false,
): void {
  if (!draft.mayTell(child.parents.length)) return;
  const { queue, pid, key } = child;
  const signal = { id: '', child: { queue, pid, key, end: how.end }, data: how.result ?? EMPTY };
  for (const parent of child.parents) tellParent(draft, group, parent, child, signal, how, now, hasEnded);
}

/**
 * The end counts as a signal if the child was completed, or the policy says so. Otherwise the parent fails: it goes to its
 * dead-letter queue as if it had waited too long.
 */
function tellParent(
  draft: TaskDraft,
  group: string,
  parent: TaskParent,
  child: Child,
  signal: KeptSignal,
  { end, reason }: HowEnded,
  now: Instant,
  hasEnded: (queue: Queue, pid: Pid) => boolean,
): void {
  // The dead letter still knows its parent.
  if (end === 'dead-lettered' && parent.onFailure === 'retry') return;
  const queue = draft.queue({ group, name: parent.queue });
  if (queue === undefined) return;
  const pid = parent.key === undefined ? parent.pid : draft.pidOfKey(queue, parent.key);
  if (pid === undefined || hasEnded(queue, pid)) return;
  const task = draft.find(queue, pid);
  // A parent that has waited too long is gone, even if no search has noticed that yet.
  if (task === undefined || awaited(task.state, now) === 0 || isTooLate(task.state, now)) return;
  if (end === 'completed' || parent.onFailure === 'continue') {
    countSignal(draft, { queue, pid, task }, signal, now);
    return;
  }
  const waits = task.state.history?.waits;
  if (waits === undefined) return;
  // An end counts once: what becomes of the child later does not matter.
  const box = waits.box ? boxOf(draft, queue, pid) : undefined;
  if (draft.needs.length > 0 || box?.hasCounted(child)) return;
  const why = failureOf({ group, name: child.queue }, child, end, reason);
  const timeout = { at: now, action: 'dead-letter' as const, reason: why };
  draft.change(queue, pid, task, withWaits(task.state, { ...waits, timeout }, now));
}

const HOW: Readonly<Record<ChildEnd, string>> = {
  completed: 'was completed',
  'dead-lettered': 'failed',
  cancelled: 'was cancelled',
  removed: 'was removed',
};

function failureOf(queue: QueueName, { pid }: Child, end: ChildEnd, reason: string | undefined): string {
  const name = `${formatQueueName(queue)} ${pidText(Buffer.from(pid, 'latin1'))}`;
  const why = reason === undefined || reason === '' ? '' : `: ${reason}`;
  const text = Buffer.from(`a task that it waits for ${HOW[end]}, ${name}${why}`);
  if (text.byteLength <= limits.errorMessageBytes) return text.toString();
  // The decoder replaces a character that is cut in two.
  return text
    .subarray(0, limits.errorMessageBytes - 3)
    .toString()
    .replace(/\ufffd$/, '');
}
