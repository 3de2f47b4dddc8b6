import type { EnqueueItem, TaskResult } from '../../domain/commands.ts';
import { decodeEnd, recordPid } from '../../domain/end-record.ts';
import type { Instant } from '../../domain/ids.ts';
import { endOfKey } from '../../domain/key-pointer.ts';
import type { QueueSettings } from '../../domain/queue-settings.ts';
import type { Queue } from '../../queues/queue.ts';
import { endRecords } from '../../records/record-store.ts';
import type { TaskDraft } from '../task-draft.ts';

/** How long the end of a task is kept: for its result, and to keep later tasks with its PID out. 0: not at all. */
export function keepEndMs(
  { resultRetentionMs, keepOutMs }: QueueSettings,
  isCompleted: boolean,
  result: TaskResult | undefined,
): number {
  const forResult = result === undefined ? 0 : (result.keepMs ?? resultRetentionMs);
  return Math.max(forResult, isCompleted ? keepOutMs : 0);
}

/** Whether the task of an enqueue was completed so recently that the settings keep it out. May need a read. */
export function isKeptOut(
  draft: TaskDraft,
  { ledger, settings }: Queue,
  { key, pid }: Pick<EnqueueItem, 'key' | 'pid'>,
  now: Instant,
): boolean {
  if (settings.keepOutMs === 0) return false;
  const { name } = ledger;
  const ended = key !== undefined ? endOfKey(name, key) : pid && { name, pid };
  if (ended === undefined || draft.queue(endRecords.of(name.group)) === undefined) return false;
  const record = endRecords.find(draft, name.group, recordPid(ended.name.name, ended.pid));
  const data = record && endRecords.dataOf(draft, record);
  if (record === undefined || data === undefined) return false;
  // Unlike the instant in the data, that of the state follows the clock after a hand-off or a restore.
  return decodeEnd(data).outcome === 'completed' && now < record.task.state.enqueuedAt + settings.keepOutMs;
}
