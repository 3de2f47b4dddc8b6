import type { QueueName } from '@taskmaster/proto';
import type { Instant, Pid } from '../domain/ids.ts';
import { AVAILABLE, NO_HISTORY, NO_LINKS, type TaskLinks, type TaskState } from '../domain/task.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { Queue } from '../queues/queue.ts';
import { deadLetterQueueOf, NO_TOKEN, withoutOrigin } from './attempts.ts';
import type { TaskMove } from './task-draft.ts';

/**
 * The move of a task to its dead-letter queue. `state`: the task after its last attempt, which has ended at `endedAt`. It loses
 * its token: a lease of a task with the same PID there may have the same one, and must not complete it.
 */
export function toDeadLetters(queue: Queue, pid: Pid, task: CachedTask, state: TaskState, endedAt: Instant): TaskMove {
  const { name } = queue.ledger;
  const { retry } = state;
  const origin = { queue: name.name, retry, died: { pid, at: endedAt } };
  const rest = { startBy: undefined, waits: undefined, links: linksOfDead(state.history?.links), origin, rerun: false };
  const history = { ...(state.history ?? NO_HISTORY), ...rest };
  const after = { ...state, token: NO_TOKEN, retry: undefined, visibility: AVAILABLE, history };
  const target = deadLetterQueueOf(name, queue.settings, state);
  return { queue, pid, task, target, arrival: pid, after, kind: 'dead-letter' };
}

/** The move of a task that is not leased to another queue, as it is. It loses its token: see `toDeadLetters`. */
export const toQueue = (queue: Queue, pid: Pid, task: CachedTask, target: QueueName): TaskMove => ({
  queue,
  pid,
  task,
  target,
  arrival: pid,
  after: { ...task.state, token: NO_TOKEN },
  kind: 'requeue',
});

/** A dead letter is in no order. Those of its parents still wait for it that wait for the retry. */
function linksOfDead(links: TaskLinks | undefined): TaskLinks | undefined {
  if (links === undefined) return undefined;
  const parents = links.parents.filter(({ onFailure }) => onFailure === 'retry');
  const { orderKey } = links;
  return parents.length === 0 && orderKey === undefined ? undefined : { ...NO_LINKS, parents, orderKey };
}

/** The move of a task back to the queue from which it came to its dead-letter queue. Undefined if it came from none. */
export function fromDeadLetters(queue: Queue, pid: Pid, task: CachedTask, now: Instant): TaskMove | undefined {
  const { state } = task;
  if (state.history?.origin === undefined) return undefined;
  const { origin } = state.history;
  const history = withoutOrigin(state.history);
  const anew = { dueAt: now, attempts: 0, token: NO_TOKEN, retry: origin.retry, visibility: AVAILABLE, history };
  const target = { group: queue.ledger.name.group, name: origin.queue };
  return { queue, pid, task, target, arrival: origin.died?.pid ?? pid, after: { ...state, ...anew }, kind: 'requeue' };
}
