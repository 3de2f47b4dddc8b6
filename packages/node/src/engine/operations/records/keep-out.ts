import type { Instant, Pid, QueueSettings, TaskResult } from '@taskmaster/server/domain';
import { decodeEnd, recordPid, recordsOf } from '../../../domain/end-record.ts';
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

/** Whether a task with this PID was completed so recently that the settings keep a new one out. May need a read. */
export function isKeptOut(draft: TaskDraft, { ledger, settings }: Queue, pid: Pid, now: Instant): boolean {
  const { group, name } = ledger.name;
  if (settings.keepOutMs === 0) return false;
  const records = draft.queue(recordsOf(group));
  const key = recordPid(name, pid);
  const record = records && draft.find(records, key);
  if (records === undefined || record === undefined) return false;
  const data = record.data ?? draft.payload(records, key);
  if (data === undefined) {
    draft.need(records, key, record.state.dataBytes);
    return false;
  }
  const { outcome, at } = decodeEnd(data);
  return outcome === 'completed' && at !== undefined && now < at + settings.keepOutMs;
}
