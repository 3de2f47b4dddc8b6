import { limits, type QueueName } from '@taskmaster/proto';
import { deadLetterEnd, encodeEnd, type RecordedEnd, recordPid } from '../../domain/end-record.ts';
import type { Instant, Pid } from '../../domain/ids.ts';
import type { CachedTask } from '../../queues/cache/places.ts';
import type { Queue } from '../../queues/queue.ts';
import { endRecords } from '../../records/record-store.ts';
import { recordState } from '../attempts.ts';
import { joinOrder } from '../flows/order.ts';
import { settleEnds } from '../flows/settle-ends.ts';
import type { TaskDraft, TaskMove } from '../task-draft.ts';

/**
 * Leaves the record of an end for later waits, in place of that of an earlier task with the same PID. `isFirst`: there was
 * none, unless its queue was deleted and made again in the same moment.
 */
export function leaveEnd(
  draft: TaskDraft,
  { group, name }: QueueName,
  pid: Pid,
  end: RecordedEnd,
  keepMs: number,
  isFirst = false,
): void {
  const data = encodeEnd(end);
  const state = recordState(data, end.at, (end.at + keepMs) as Instant);
  if (isFirst) endRecords.putUnread(draft, group, recordPid(name, pid), state, data);
  else endRecords.put(draft, group, recordPid(name, pid), state, data);
}

/** Removes what an earlier task with the same PID has left, because it would be mistaken for that of this task. */
export function forgetEnd(draft: TaskDraft, { group, name }: QueueName, pid: Pid): void {
  // Without records of the group, their PIDs need not be computed.
  if (draft.queue(endRecords.of(group)) !== undefined) endRecords.remove(draft, group, recordPid(name, pid));
}

/** How a cancelled task goes, and when that is decided: its reason stays for a time from then on. Default: when it has ended. */
interface Cancelled {
  readonly how?: 'moved' | 'dropped';
  /** True: this atom has assigned its PID, which no task had before. */
  readonly isAssigned?: boolean;
  readonly now?: Instant;
}

/** Removes a cancelled task, and leaves the reason for later waits. */
export function endCancelled(
  draft: TaskDraft,
  queue: Queue,
  pid: Pid,
  task: CachedTask,
  cancelReason: string,
  at: Instant,
  { how = 'moved', isAssigned = false, now = at }: Cancelled = {},
): void {
  draft.remove(queue, pid, task, how);
  draft.noteEnd({ queue, pid, state: task.state, end: 'cancelled', result: undefined, reason: cancelReason });
  const { attempts } = task.state;
  const end = { outcome: 'cancelled' as const, at, attempts, result: undefined, error: undefined, cancelReason };
  leaveEnd(draft, queue.ledger.name, pid, end, limits.defaultResultRetentionMs + now - at, isAssigned);
}

function noteDead(draft: TaskDraft, { kind, queue, pid, task, after }: TaskMove): void {
  if (kind !== 'dead-letter') return;
  const reason = after.history?.failures.at(-1)?.error?.message;
  draft.noteEnd({ queue, pid, state: task.state, end: 'dead-lettered', result: undefined, reason });
}

/**
 * Settles the ends of tasks, and moves tasks as `TaskDraft.move`. Dead letters leave a record for later waits. Their
 * dead-letter queues cannot tell how the latest task with a PID has ended: a later one may have been completed since.
 */
export function moveAll(
  draft: TaskDraft,
  moves: readonly TaskMove[],
  now: Instant,
  taken?: Parameters<TaskDraft['move']>[2],
): void {
  for (const move of moves) noteDead(draft, move);
  settleEnds(draft, now);
  draft.move(moves, (target, pid, after) => joinOrder(draft, target, pid, after, now), taken);
  // Dead letters may have replaced earlier ones.
  if (draft.hasEnds) settleEnds(draft, now);
  if (draft.needs.length > 0) return;
  for (const { kind, queue, pid, after } of moves) {
    if (kind !== 'dead-letter') continue;
    const end = deadLetterEnd(after, now);
    // Counted from now on: the node may have been down when the last attempt ended.
    leaveEnd(draft, queue.ledger.name, pid, end, limits.defaultResultRetentionMs + now - end.at);
  }
}
