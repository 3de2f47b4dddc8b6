import type { QueueName } from '@taskmaster/proto';
import type { BulkPlace, TaskFilter } from '../domain/bulk-runs.ts';
import { headersOf, type TaskHeaders } from '../domain/headers.ts';
import type { Instant, Pid, QueueId } from '../domain/ids.ts';
import { afterPrefix, pidAfter, pidOfTaskKey, taskKey } from '../domain/keys.ts';
import { namePattern } from '../domain/name-pattern.ts';
import type { TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { decodeTaskRow } from '../log/atom-rows.ts';
import { FIRST_PID } from '../log/queue-ledger.ts';
import { dueFor, showAllDue } from '../operations/expire.ts';
import type { EngineView } from '../pending/engine-view.ts';
import type { Need } from '../pending/reads.ts';
import { Family } from '../ports/store.ts';
import type { Queue } from '../queues/queue.ts';

// Tasks of queues that match a pattern, in the order of the ids of the queues, then of the PIDs. Ids are never reused, and move
// with the group. So a place in this order is the same on every node.

/** Tasks that one look reads. */
const TASKS_AT_ONCE = 1000;
/** Queues that one look reads: some reads of the store for each. */
const QUEUES_AT_ONCE = 64;
/** Payloads that the tasks of one look may have, if they are needed, in bytes. A single one may have more. */
const BYTES_AT_ONCE = 1024 * 1024;
/** Rows of each family that one read gets. */
const ROWS_AT_ONCE = 500;

export const BEGINNING: BulkPlace = { queueId: 0 as QueueId, after: FIRST_PID };

/** A task that was found. */
export interface FoundTask {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly state: TaskState;
}

/** A task that a look has found. */
interface LookedAt extends FoundTask {
  /** How many tasks the look had looked at before it, and with it. */
  readonly count: number;
}

/** What a look has found. */
export interface Found {
  /** Tasks that match by their state. */
  readonly tasks: readonly LookedAt[];
  readonly lookedAt: number;
  /** Where the next look begins. Undefined: there are no more tasks. */
  readonly next: BulkPlace | undefined;
}

/** The first tasks of what was found, at most `most`, and what is behind them. */
export function firstOf(found: Found, most: number): { readonly first: Found; readonly rest: Found | undefined } {
  const last = found.tasks[most - 1];
  if (last === undefined || found.tasks.length === most) return { first: found, rest: undefined };
  const { queue, pid, count } = last;
  const next = { queueId: queue.ledger.queueId, after: pid };
  const tasks = found.tasks.slice(most).map((task) => ({ ...task, count: task.count - count }));
  return {
    first: { tasks: found.tasks.slice(0, most), lookedAt: count, next },
    rest: { tasks, lookedAt: found.lookedAt - count, next: found.next },
  };
}

/** The queues that match, in the order of their ids: from one id to another. `except`: the name of a queue that does not. */
export function queuesOf(
  { table }: EngineState,
  { group, name: pattern }: QueueName,
  { from = 0, to = Number.MAX_SAFE_INTEGER, except }: { from?: number; to?: number; except?: string | undefined } = {},
): Queue[] {
  const matches = namePattern(pattern);
  const only = pattern.includes('*') ? undefined : table.get({ group, name: pattern });
  const found: Queue[] = [];
  for (const queue of only === undefined ? table.ofGroup(group) : [only]) {
    const { queueId, name } = queue.ledger;
    if (queue.isReserved || queueId < from || queueId >= to || name.name === except || !matches(name.name)) continue;
    found.push(queue);
  }
  return found.sort((a, b) => a.ledger.queueId - b.ledger.queueId);
}

/**
 * Looks for tasks from a place on, in these queues. Other operations have their turns between its reads. `withPayloads`: whether
 * the payloads of the tasks that it finds are read then.
 */
export async function lookFrom(
  engineState: EngineState,
  queues: readonly Queue[],
  { matches }: TaskFilter,
  place: BulkPlace,
  withPayloads: boolean,
): Promise<Found> {
  const tasks: LookedAt[] = [];
  let lookedAt = 0;
  let bytes = 0;
  let read = 0;
  for (const queue of queues) {
    const { queueId } = queue.ledger;
    if (queue.dropped || queueId < place.queueId) continue;
    if (read++ === QUEUES_AT_ONCE) return { tasks, lookedAt, next: { queueId, after: FIRST_PID } };
    // Tasks whose last attempts are over belong into other queues, and delays that are over are no delays.
    await showAllDue(engineState, dueFor(engineState, [queue.ledger.name]));
    if (queue.ledger.size === 0) continue;
    let after = queueId === place.queueId ? place.after : FIRST_PID;
    for (let page: Page | undefined; page?.isLast !== true; ) {
      page = await tasksBehind(engineState, queue, after);
      const now = engineState.clock.now();
      for (const { pid, state } of page.tasks) {
        const isMatch = matches(state, now);
        if (isMatch && withPayloads) bytes += state.dataBytes;
        const isFull = tasks.length > 0 && bytes > BYTES_AT_ONCE;
        if (isFull || lookedAt === TASKS_AT_ONCE) return { tasks, lookedAt, next: { queueId, after } };
        lookedAt++;
        if (isMatch) tasks.push({ queue, pid, state, count: lookedAt });
        after = pid;
      }
      after = page.end;
      if (lookedAt === TASKS_AT_ONCE && !page.isLast) return { tasks, lookedAt, next: { queueId, after } };
    }
  }
  return { tasks, lookedAt, next: undefined };
}

/** Tasks of a queue in order. */
interface Page {
  readonly tasks: readonly Pick<FoundTask, 'pid' | 'state'>[];
  /** All tasks up to this PID were read. */
  readonly end: Pid;
  /** There are no more. */
  readonly isLast: boolean;
}

/** The tasks behind a PID, whatever their state: rows of the store, corrected by the changes that they do not show. */
async function tasksBehind({ store }: EngineState, queue: Queue, after: Pid): Promise<Page> {
  const { prefix } = queue;
  using _hold = queue.hold();
  const gte = taskKey(prefix, pidAfter(after));
  const { readyFloor } = queue.ledger;
  const limit = { rows: ROWS_AT_ONCE, bytes: Number.MAX_SAFE_INTEGER, once: true };
  // Deleted rows slow scans down. So the family with fewer tasks is read only as far as the other one, and not at all if it has
  // none.
  const { available, hidden } = queue.ledger;
  const families = [
    // No available task has a PID below the floor (L2), but there may be many rows of tasks that are gone.
    { family: Family.ready, tasks: available, gte: after < readyFloor ? taskKey(prefix, readyFloor) : gte },
    { family: Family.hidden, tasks: hidden, gte },
  ].sort((a, b) => b.tasks - a.tasks);
  let end: Pid | undefined;
  const states = new Map<Pid, TaskState>();
  for (const { family, tasks, gte } of families) {
    const lt = end === undefined ? afterPrefix(prefix) : taskKey(prefix, pidAfter(end));
    if (tasks === 0 || gte >= lt) continue;
    const rows = await store.scan(family, { gte, lt }, limit);
    for (const { key, value } of rows) states.set(pidOfTaskKey(key), decodeTaskRow(value));
    const last = rows.at(-1);
    if (last !== undefined && rows.length === ROWS_AT_ONCE) end = pidOfTaskKey(last.key);
  }
  for (const { pid, now } of queue.pendingChanges()) {
    if (now === undefined) states.delete(pid);
    else if (pid > after) states.set(pid, now);
  }
  const inOrder = [...states].filter(([pid]) => end === undefined || pid <= end).sort(([a], [b]) => (a < b ? -1 : 1));
  const tasks = inOrder.slice(0, TASKS_AT_ONCE).map(([pid, state]) => ({ pid, state }));
  const isCut = tasks.length < inOrder.length;
  return {
    tasks,
    end: (isCut ? undefined : end) ?? tasks.at(-1)?.pid ?? after,
    isLast: !isCut && end === undefined,
  };
}

/** Those of the tasks that match now, by their headers too. `needs`: what has to be read first. */
export function matchingNow(
  view: EngineView,
  tasks: readonly FoundTask[],
  { matches, passes }: TaskFilter,
  now: Instant,
): { readonly tasks: readonly FoundTask[]; readonly needs: readonly Need[] } {
  const needs: Need[] = [];
  const matching: FoundTask[] = [];
  for (const { queue, pid } of tasks) {
    const known = queue.dropped ? undefined : view.known(queue, pid);
    if (known?.kind === 'unknown') needs.push({ queue, pid, payloadBytes: 0 });
    if (known?.kind !== 'task' || !matches(known.task.state, now)) continue;
    const { state, data } = known.task;
    if (passes !== undefined) {
      const payload = state.headerBytes === 0 ? NO_BYTES : (data ?? view.payload(queue, pid));
      if (payload === undefined) {
        needs.push({ queue, pid, payloadBytes: state.dataBytes });
        continue;
      }
      if (!passes(headersIn(payload, state))) continue;
    }
    matching.push({ queue, pid, state });
  }
  return { tasks: matching, needs };
}

const headersIn = (data: Uint8Array, { headerBytes }: TaskState): TaskHeaders => headersOf({ data, headerBytes });

const NO_BYTES = new Uint8Array(0);
