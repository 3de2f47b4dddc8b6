import type { EnqueueItem, Instant, QueueSettings, TaskResult } from '@taskmaster/server/domain';
import { decodeEnd, recordPid, recordsOf } from '../../domain/end-record.ts';
import { endOfKey } from '../../domain/key-pointer.ts';
import type { Queue } from '../../queues/queue.ts';
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
  const records = draft.queue(recordsOf(name.group));
  if (ended === undefined || records === undefined) return false;
  const place = recordPid(ended.name.name, ended.pid);
  const record = draft.find(records, place);
  if (record === undefined) return false;
  const data = record.data ?? draft.payload(records, place);
  if (data === undefined) {
    draft.need(records, place, record.state.dataBytes);
    return false;
  }
  // Unlike the instant in the data, that of the state follows the clock after a hand-off or a restore.
  return decodeEnd(data).outcome === 'completed' && now < record.state.enqueuedAt + settings.keepOutMs;
}
