import type { ApplyAtom, TaskChange } from '../../domain/atom.ts';
import type { Instant, QueueId } from '../../domain/ids.ts';
import { NEVER, type TaskHistory, type TaskState } from '../../domain/task.ts';

/*
 * Clocks of nodes differ. So the target adds the difference between the clocks at the start of the transfer to every instant
 * that arrives. This difference includes the travel time of the offer: a lease may end a little later, never earlier.
 */

export const shiftInstant = (at: Instant, byMs: number): Instant => Math.max(0, at + byMs) as Instant;

export function shiftState(state: TaskState, byMs: number): TaskState {
  const { visibility } = state;
  const history = state.history && shiftHistory(state.history, byMs);
  const enqueuedAt = shiftInstant(state.enqueuedAt, byMs);
  const dueAt = shiftInstant(state.dueAt, byMs);
  if (visibility.kind === 'available') return { ...state, enqueuedAt, dueAt, history };
  const lease = visibility.lease && { ...visibility.lease, since: shiftInstant(visibility.lease.since, byMs) };
  const until = visibility.until === NEVER ? NEVER : shiftInstant(visibility.until, byMs);
  return { ...state, enqueuedAt, dueAt, history, visibility: { kind: 'hidden', until, lease } };
}

function shiftHistory(history: TaskHistory, byMs: number): TaskHistory {
  const failures = history.failures.map((failure) => ({ ...failure, at: shiftInstant(failure.at, byMs) }));
  const shifted = <T extends { readonly at: Instant }>(past: T | undefined): T | undefined =>
    past && { ...past, at: shiftInstant(past.at, byMs) };
  const [progress, cancelled] = [shifted(history.progress), shifted(history.cancelled)];
  const startBy = history.startBy === undefined ? undefined : shiftInstant(history.startBy, byMs);
  const origin = history.origin && { ...history.origin, died: shifted(history.origin.died) };
  const waits = history.waits && { ...history.waits, timeout: shifted(history.waits.timeout) };
  return { ...history, startBy, waits, failures, progress, cancelled, origin };
}

/** `byWall`: queues whose tasks are hidden by the system clock. Their instants are those of all nodes. */
export function shiftAtom(atom: ApplyAtom, byMs: number, byWall: ReadonlySet<QueueId>): ApplyAtom {
  const changes = atom.changes.map((change) => (byWall.has(change.queueId) ? change : shiftChange(change, byMs)));
  return { ...atom, at: shiftInstant(atom.at, byMs), changes };
}

function shiftChange(change: TaskChange, byMs: number): TaskChange {
  switch (change.kind) {
    case 'enqueue':
      return { ...change, after: shiftState(change.after, byMs) };
    case 'change':
      return { ...change, before: shiftState(change.before, byMs), after: shiftState(change.after, byMs) };
    case 'dequeue':
      return { ...change, before: shiftState(change.before, byMs) };
    default:
      return change satisfies never;
  }
}
