import type { Pid, TaskEnd } from '@taskmaster/server/domain';
import type { TaskChange } from '../../domain/atom.ts';
import { decodeEnd, recordPid, recordsOf } from '../../domain/end-record.ts';
import { deadLetterEnd } from '../operations/records/leave-end.ts';
import { type PlannedAtom, type PlannedChange, stateAfter } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';

type Dequeued = Extract<TaskChange, { readonly kind: 'dequeue' }>;

/** How an atom has ended a task: what this change of it says, and the other changes. */
export function endIn(plan: PlannedAtom, change: Dequeued, { queue, isRemoval }: PlannedChange): TaskEnd {
  const { pid, before, completed } = change;
  const record = completed && !isRemoval ? recordIn(plan, queue, pid) : undefined;
  if (record !== undefined) return decodeEnd(record);
  if (!completed) {
    const dead = deadLetterIn(plan, queue, pid);
    if (dead !== undefined) return deadLetterEnd(dead, plan.at);
  }
  const outcome = completed && !isRemoval ? 'completed' : 'removed';
  return { outcome, at: plan.at, attempts: before.attempts, result: undefined, error: undefined };
}

/** The end of all tasks of a queue that is deleted. */
export const endOfDeleted = ({ at }: PlannedAtom): TaskEnd => ({
  ...{ outcome: 'removed', at, attempts: 0 },
  ...{ result: undefined, error: undefined },
});

function recordIn({ changes }: PlannedAtom, { ledger: { name } }: Queue, pid: Pid): Uint8Array | undefined {
  const records = recordsOf(name.group).name;
  const record = recordPid(name.name, pid);
  for (const { queue, change } of changes) {
    if (change.kind !== 'dequeue' && change.pid === record && queue.ledger.name.name === records) return change.data;
  }
  return undefined;
}

function deadLetterIn({ changes }: PlannedAtom, { ledger: { name } }: Queue, pid: Pid) {
  for (const { change } of changes) {
    const after = change.pid === pid ? stateAfter(change) : undefined;
    if (after?.history?.origin?.queue === name.name) return after;
  }
  return undefined;
}
