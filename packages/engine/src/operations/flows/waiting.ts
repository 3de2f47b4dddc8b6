import type { WaitFor } from '../../domain/commands.ts';
import type { Instant } from '../../domain/ids.ts';
import { isParked, NEVER, NO_HISTORY, type TaskHistory, type TaskState, type TaskWaits } from '../../domain/task.ts';
import { hiddenUntil } from '../attempts.ts';

export const NO_WAITS: TaskWaits = { signals: 0, order: false, timeout: undefined, collect: false, box: false };

/** The wait of a new task. */
export function waitsOf({ signals, timeoutMs, action, collect }: WaitFor, now: Instant): TaskWaits {
  const timeout = timeoutMs === undefined ? undefined : { at: (now + timeoutMs) as Instant, action, reason: undefined };
  return { ...NO_WAITS, signals, timeout, collect };
}

/**
 * The task with another wait. It is parked as long as it waits for something: hidden until the timeout of its signals, or for
 * good. When it waits for nothing any more, its time counts again: it is available, or delayed if it is not due yet.
 */
export function withWaits(state: TaskState, waits: TaskWaits, now: Instant): TaskState {
  const timeout = waits.signals === 0 ? undefined : waits.timeout;
  const history: TaskHistory = { ...(state.history ?? NO_HISTORY), waits: { ...waits, timeout } };
  const after = { ...state, history };
  if (isParked(after))
    return { ...after, visibility: { kind: 'hidden', until: timeout?.at ?? NEVER, lease: undefined } };
  const dueAt = isParked(state) ? dueWhenUnparked(state, now) : state.dueAt;
  return { ...after, dueAt, visibility: hiddenUntil(dueAt, now) };
}

/** A task without a delay is due at once, also if a crash has set the time back behind its enqueue. */
const dueWhenUnparked = ({ enqueuedAt, dueAt }: TaskState, now: Instant): Instant =>
  dueAt <= enqueuedAt || dueAt <= now ? now : dueAt;
