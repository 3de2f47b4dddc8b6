import type { Instant, Pid } from '../../domain/ids.ts';
import { NO_HISTORY, NO_LINKS, type TaskHistory, type TaskLinks, type TaskState } from '../../domain/task.ts';
import type { Queue } from '../../queues/queue.ts';
import type { TaskDraft } from '../task-draft.ts';
import { NO_WAITS, withWaits } from './waiting.ts';

// Tasks of a queue with one order key form a list: each knows the one before and the one after it, and a row of the key names the
// last one, which is the one that knows none after it (`lastOf`). All but the first are parked. So an enqueue and an end read and
// change a few tasks by their PIDs, however many there are.

/** The task as the last one with its order key. It is parked unless it is the only one. */
export function joinOrder(draft: TaskDraft, queue: Queue, pid: Pid, state: TaskState, now: Instant): TaskState {
  const orderKey = state.history?.links?.orderKey;
  if (orderKey === undefined) return state;
  const before = draft.lastInOrder(queue, orderKey);
  if (before === undefined || !relink(draft, queue, before, { after: pid })) return state;
  const waits = state.history?.waits ?? NO_WAITS;
  return withWaits(linked(state, { before }), { ...waits, order: true }, now);
}

/** Tasks of one queue that have ended in one atom, as they were. */
export type EndedInQueue = ReadonlyMap<Pid, TaskState>;

/**
 * Takes a task that has ended out of the order of its key, together with its neighbours that have ended, too. The next task
 * that is left is parked no longer if none is before it.
 * @returns the PIDs that were taken out
 */
export function leaveOrder(
  draft: TaskDraft,
  queue: Queue,
  pid: Pid,
  ended: EndedInQueue,
  now: Instant,
): readonly Pid[] {
  const history = ended.get(pid)?.history;
  const orderKey = history?.links?.orderKey;
  // A dead letter is in no order.
  if (orderKey === undefined || history?.origin !== undefined) return [];
  const taken: Pid[] = [pid];
  const neighbour = (side: 'before' | 'after'): Pid | undefined => {
    let next = ended.get(pid)?.history?.links?.[side];
    while (next !== undefined) {
      const state = ended.get(next);
      if (state === undefined) return next;
      taken.push(next);
      next = state.history?.links?.[side];
    }
    return undefined;
  };
  const before = neighbour('before');
  const after = neighbour('after');
  if (before !== undefined) relink(draft, queue, before, { after });
  if (after !== undefined) follow(draft, queue, after, before, now);
  return taken;
}

/** The task comes behind another one, or is the first one now. */
function follow(draft: TaskDraft, queue: Queue, pid: Pid, before: Pid | undefined, now: Instant): void {
  const task = draft.find(queue, pid);
  if (task === undefined) return;
  const state = linked(task.state, { before });
  const waits = state.history?.waits ?? NO_WAITS;
  draft.change(queue, pid, task, before === undefined ? withWaits(state, { ...waits, order: false }, now) : state);
}

/** Returns false if the task must be read first. */
function relink(draft: TaskDraft, queue: Queue, pid: Pid, links: Partial<TaskLinks>): boolean {
  const task = draft.find(queue, pid);
  if (task === undefined) return false;
  draft.change(queue, pid, task, linked(task.state, links));
  return true;
}

function linked(state: TaskState, links: Partial<TaskLinks>): TaskState {
  const before: TaskHistory = state.history ?? NO_HISTORY;
  return { ...state, history: { ...before, links: { ...(before.links ?? NO_LINKS), ...links } } };
}
