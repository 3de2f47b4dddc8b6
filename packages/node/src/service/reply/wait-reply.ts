import type { EndedTask, TaskEnd } from '@taskmaster/engine/domain';
import { TaskOutcome, type WaitForTasksResponse, type EndedTask as WireEnded } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';

/** Upper limit for the numbers and tags of an ended task, in bytes. */
const ENDED_BYTES = 48;

const outcomes: Readonly<Record<TaskEnd['outcome'], TaskOutcome>> = {
  completed: TaskOutcome.TASK_OUTCOME_COMPLETED,
  'dead-lettered': TaskOutcome.TASK_OUTCOME_DEAD_LETTERED,
  removed: TaskOutcome.TASK_OUTCOME_REMOVED,
  unknown: TaskOutcome.TASK_OUTCOME_UNKNOWN,
  cancelled: TaskOutcome.TASK_OUTCOME_CANCELLED,
  'cancel-requested': TaskOutcome.TASK_OUTCOME_CANCEL_REQUESTED,
  'lease-lost': TaskOutcome.TASK_OUTCOME_LEASE_LOST,
};

/** The first of these tasks that fit into a reply. */
export function waitReply(tasks: readonly EndedTask[]): WaitForTasksResponse {
  const ended: WireEnded[] = [];
  let bytes = 0;
  for (const { index, end } of tasks) {
    bytes += ENDED_BYTES + (end.result?.length ?? 0) + Buffer.byteLength(end.error ?? '');
    bytes += Buffer.byteLength(end.cancelReason ?? '');
    if (bytes > REPLY_BYTES) break;
    ended.push({
      task: index,
      outcome: outcomes[end.outcome],
      result: end.result,
      endedUnixMs: end.at ?? 0,
      attempts: end.attempts,
      error: end.error === undefined ? undefined : { message: end.error, details: '' },
      cancelReason: end.cancelReason ?? '',
    });
  }
  return { ended };
}
