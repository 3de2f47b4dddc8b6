import type { LeaseToken, Pid, TaskEnd, TaskState } from '@taskmaster/server/domain';
import type { TaskChange } from '../../domain/atom.ts';
import { decodeEnd, recordPid, recordsOf } from '../../domain/end-record.ts';
import { cancelReasonOf } from '../operations/attempts.ts';
import { deadLetterEnd } from '../operations/records/leave-end.ts';
import { type PlannedAtom, type PlannedChange, stateAfter } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';

type Dequeued = Extract<TaskChange, { readonly kind: 'dequeue' }>;

/** How an atom has ended a task: what this change of it says, and the other changes. */
export function endIn(plan: PlannedAtom, change: Dequeued, { queue, isRemoval }: PlannedChange): TaskEnd {
  const { pid, before, completed } = change;
  const record = isRemoval ? undefined : recordIn(plan, queue, pid);
  if (record !== undefined) return decodeEnd(record);
  if (!completed) {
    const dead = deadLetterIn(plan, queue, pid);
    if (dead !== undefined) return deadLetterEnd(dead, plan.at);
  }
  const outcome = completed && !isRemoval ? 'completed' : 'removed';
  const rest = { result: undefined, error: undefined, cancelReason: undefined };
  return { outcome, at: plan.at, attempts: before.attempts, ...rest };
}

/** Why the worker with this lease should stop. Undefined: it need not, or there is no worker. `state`: of its task. */
export function endOfLease(state: TaskState, token: LeaseToken | undefined): TaskEnd | undefined {
  if (token === undefined) return undefined;
  const cancelReason = cancelReasonOf(state);
  if (state.token === token && cancelReason === undefined) return undefined;
  const { attempts } = state;
  const rest = { at: undefined, attempts, result: undefined, error: undefined };
  return state.token === token
    ? { outcome: 'cancel-requested', cancelReason, ...rest }
    : { outcome: 'lease-lost', cancelReason: undefined, ...rest };
}

/** The end of all tasks of a queue that is deleted. */
export const endOfDeleted = ({ at }: PlannedAtom): TaskEnd => ({
  ...{ outcome: 'removed', at, attempts: 0 },
  ...{ result: undefined, error: undefined, cancelReason: undefined },
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
