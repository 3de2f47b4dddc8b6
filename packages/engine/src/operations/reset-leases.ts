import { limits, type QueueName } from '@taskmaster/proto';
import type { Instant, Key, LeaseToken, Pid } from '../domain/ids.ts';
import { dueKey, pidOfDueKey } from '../domain/keys.ts';
import { AVAILABLE, isLeased, isLeasedAt } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import { Reads } from '../pending/reads.ts';
import { Family } from '../ports/store.ts';
import type { Queue } from '../queues/queue.ts';
import { cancelReasonOf, isToRunAgain, withoutCancellation } from './attempts.ts';
import { type Attempt, decide, decideSome } from './decide.ts';
import { endCancelled } from './ends/leave-end.ts';
import { dueFor, showAllDue } from './expire.ts';
import { settleEnds } from './flows/settle-ends.ts';
import { endOfDue } from './get-and-peek.ts';
import { TaskDraft } from './task-draft.ts';

const TASKS_PER_ATOM = 1000;
const FIRST = 0 as Instant;

/**
 * Makes every leased task of a queue available, in atoms of a bounded size. Tasks leased while it runs may stay leased. The
 * lease tokens change, so that the old workers cannot complete the tasks.
 */
export async function resetLeases(engineState: EngineState, name: QueueName): Promise<number> {
  // Leases that have ended are not reset: their tasks get a backoff or go to the dead-letter queue.
  await showAllDue(engineState, dueFor(engineState, [name]));
  const id = engineState.partitionOf(name.group);
  const { result: queue, durable } = await decide(engineState, id, () => ({
    kind: 'decided',
    result: engineState.table.get(name),
  }));
  if (!queue) {
    await durable;
    return 0;
  }
  using reads = new Reads(engineState);
  reads.hold(queue);
  // First the leases that are not in the store yet, then those in the store.
  const pending: Pid[] = [];
  for (const { pid, now } of queue.pendingChanges()) if (now && isLeased(now)) pending.push(pid);
  let reset = 0;
  for (let at = 0; at < pending.length; at += TASKS_PER_ATOM) {
    reset += await resetAll(engineState, queue, pending.slice(at, at + TASKS_PER_ATOM));
  }
  let gte = dueKey(queue.prefix, FIRST, '' as Pid);
  for (;;) {
    const limit = { rows: TASKS_PER_ATOM, bytes: Number.MAX_SAFE_INTEGER };
    const rows = await engineState.store.scan(Family.due, { gte, lt: endOfDue(queue) }, limit);
    const pids = rows.map(({ key }) => pidOfDueKey(key));
    reset += await resetAll(engineState, queue, pids);
    const last = rows.at(-1);
    if (!last || rows.length < TASKS_PER_ATOM) break;
    gte = `${last.key}\0` as Key;
  }
  return reset;
}

async function resetAll(engineState: EngineState, queue: Queue, pids: readonly Pid[]): Promise<number> {
  let reset = 0;
  for (let from = 0; from < pids.length; ) {
    const { result, durable } = await resetSome(engineState, queue, pids.slice(from));
    await durable;
    reset += result.reset;
    from += result.done;
  }
  return reset;
}

interface Reset {
  readonly reset: number;
  /** Number of PIDs that are finished. */
  readonly done: number;
}

const resetSome = (engineState: EngineState, queue: Queue, pids: readonly Pid[]) =>
  decideSome(engineState, queue.partition, pids, (some, now, reads): Attempt<Reset> => {
    if (queue.dropped) return { kind: 'decided', result: { reset: 0, done: some.length } };
    const draft = new TaskDraft(new EngineView(engineState, now, reads));
    const token = engineState.nextTicket(queue.partition) as number as LeaseToken;
    /** Parents that may hear of the ends. */
    let told = 0;
    let done = 0;
    for (const pid of some) {
      const task = draft.find(queue, pid);
      const cancelReason = task && cancelReasonOf(task.state);
      if (cancelReason !== undefined) told += task?.state.history?.links?.parents.length ?? 0;
      if (done > 0 && told > limits.toldParents) break;
      done++;
      if (!task || !isLeasedAt(task.state, now)) continue;
      const history = withoutCancellation(task.state.history);
      if (cancelReason !== undefined) endCancelled(draft, queue, pid, task, cancelReason, now);
      else {
        const attempts = isToRunAgain(task.state) ? 0 : task.state.attempts;
        draft.change(queue, pid, task, { ...task.state, attempts, token, visibility: AVAILABLE, history });
      }
    }
    const reset = draft.changes.filter(({ queue: { isReserved } }) => !isReserved).length;
    settleEnds(draft, now);
    draft.writeBoxes(now);
    const { needs, changes, created } = draft;
    if (needs.length > 0) return { kind: 'needs', needs };
    return {
      kind: 'decided',
      result: { reset, done },
      changes: changes.length === 0 ? undefined : { changes, created },
    };
  });
