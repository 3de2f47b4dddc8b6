import { EnqueueResult, WhenFull } from '@taskmaster/proto';
import type { EnqueueItem } from '../domain/commands.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { isLeased, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { type PlannedChange, stateAfter, stateBefore } from '../planned-atom.ts';
import type { QueueCache } from '../queues/cache/queue-cache.ts';
import { refill } from '../queues/cache/refill.ts';
import type { Lanes, LaneTask } from '../queues/lanes/lanes.ts';
import type { Queue } from '../queues/queue.ts';
import { mayBeDue } from './expire.ts';
import { settleEnds } from './flows/settle-ends.ts';
import type { Objection, PlannedUpdate } from './plan-batch.ts';
import type { UpdateView } from './plan-update.ts';
import { endCancelled } from './records/leave-end.ts';
import type { DraftMark, TaskDraft } from './task-draft.ts';

const { WHEN_FULL_DROP_NEWEST, WHEN_FULL_DROP_OLDEST, WHEN_FULL_REFUSE } = WhenFull;

/** How long a caller should wait when as many tasks wait as may. */
const RETRY_MS = 1_000;
/** Reads of the head of one queue, before the tasks to drop are those in memory. More may not fit into it. */
const MOST_REFILLS = 4;

const reasonOf = (maxBacklog: number): string => `dropped: ${maxBacklog} tasks waited in the queue`;

/**
 * Refuses an update, or drops its new tasks, if more tasks would wait in a queue than its settings allow. Those that drop the
 * oldest tasks do so when all updates of the atom are planned: see `dropOldest`.
 */
export function capBacklogs(
  enqueue: readonly Pick<EnqueueItem, 'queue'>[],
  update: PlannedUpdate,
  view: Pick<UpdateView, 'now' | 'canShowDue'>,
): Objection | undefined {
  const { draft, mark } = update;
  const { now } = view;
  let added: Map<Queue, number> | undefined;
  for (let at = mark.changes; at < draft.changes.length; at++) {
    const planned = draft.changes[at];
    // Most queues have no such setting, and nothing is looked up for them.
    if (planned === undefined || !isCapped(planned.queue)) continue;
    added ??= new Map();
    added.set(planned.queue, (added.get(planned.queue) ?? 0) + addedBy(planned));
  }
  if (added === undefined) return undefined;
  const before = waitingBefore(draft, mark);
  for (const [queue, more] of added) {
    const { maxBacklog, whenFull } = queue.settings;
    const waiting = backlogOf(queue) + (before.get(queue) ?? 0);
    // What is due counts as it is, whether or not a search has found it.
    const mayExceed = more > 0 && waiting + more + queue.ledger.leased > maxBacklog;
    if (mayExceed && mayBeDue(queue, now) && view.canShowDue(queue)) return { kind: 'due', queues: new Set([queue]) };
    const excess = Math.min(more, waiting + more - maxBacklog);
    if (excess <= 0) continue;
    if (whenFull === WHEN_FULL_REFUSE) return backlogFull(queue, maxBacklog, waiting);
    if (whenFull === WHEN_FULL_DROP_NEWEST) dropNewest(enqueue, update, queue, excess, now);
  }
  return undefined;
}

/** Settings match the names of reserved queues, too, whose tasks are records. */
const isCapped = ({ isReserved, settings }: Queue): boolean => settings.maxBacklog > 0 && !isReserved;

/** Tasks that wait in a queue. */
const backlogOf = ({ ledger }: Queue): number => ledger.available + ledger.delayed;

const waits = (state: TaskState | undefined): number => (state === undefined || isLeased(state) ? 0 : 1);

/** What a change adds to the new tasks. Dead letters come whatever waits, and a task that comes back is no new one. */
function addedBy({ change }: PlannedChange): number {
  if (change.kind === 'dequeue') return -waits(change.before);
  return change.kind === 'enqueue' && change.after.history?.origin === undefined ? 1 : 0;
}

/** What the changes before an update add to the waiting tasks of each queue. Marks only move on, so it adds the latest ones. */
function waitingBefore(draft: TaskDraft, { changes }: DraftMark): ReadonlyMap<Queue, number> {
  draft.waiting ??= { changes: 0, more: new Map() };
  const { waiting } = draft;
  for (; waiting.changes < changes; waiting.changes++) {
    const planned = draft.changes[waiting.changes];
    if (planned === undefined || !isCapped(planned.queue)) continue;
    const { queue, change } = planned;
    const more = waits(stateAfter(change)) - waits(stateBefore(change));
    waiting.more.set(queue, (waiting.more.get(queue) ?? 0) + more);
  }
  return waiting.more;
}

const backlogFull = (queue: Queue, limit: number, waiting: number): Refusal =>
  new Refusal('BACKLOG_FULL', `${waiting} tasks wait in the queue ${queue.fullName}: its settings allow ${limit}`, {
    retryDelayMs: RETRY_MS,
    metadata: { queue: queue.fullName, limit: String(limit), used: String(waiting) },
  });

function dropNewest(
  enqueue: readonly Pick<EnqueueItem, 'queue'>[],
  { start, end, draft, outcomes, firstOutcome }: PlannedUpdate,
  queue: Queue,
  count: number,
  now: Instant,
): void {
  let left = count;
  for (let at = end.enqueue - 1; at >= start.enqueue && left > 0; at--) {
    const place = firstOutcome + at - start.enqueue;
    const [item, outcome] = [enqueue[at], outcomes[place]];
    if (item === undefined || outcome?.result !== EnqueueResult.ENQUEUE_RESULT_CREATED) continue;
    if (draft.queue(item.queue) !== queue || !drop(draft, queue, outcome.pid, now)) continue;
    outcomes[place] = { ...outcome, result: EnqueueResult.ENQUEUE_RESULT_DROPPED };
    left--;
  }
}

/** False: it does not wait any more. */
function drop(draft: TaskDraft, queue: Queue, pid: Pid, now: Instant): boolean {
  const task = draft.find(queue, pid);
  if (task === undefined || isLeased(task.state)) return false;
  endCancelled(draft, queue, pid, task, reasonOf(queue.settings.maxBacklog), now, { how: 'dropped' });
  return true;
}

/**
 * Drops the first available tasks of the queues whose settings say so, one for each task that a draft adds beyond what may wait.
 * Returns the queue whose head must be read first. If all other tasks are delayed, the newest ones go.
 * @param refills how often the heads of queues were read for this decision.
 */
export function dropOldest(
  draft: TaskDraft,
  now: Instant,
  refills: ReadonlyMap<Queue, number>,
): MissingHead | undefined {
  let added: Map<Queue, { added: number; more: number }> | undefined;
  for (const planned of draft.changes) {
    const { queue, change } = planned;
    if (!isCapped(queue) || queue.settings.whenFull !== WHEN_FULL_DROP_OLDEST) continue;
    added ??= new Map();
    const of = added.get(queue) ?? { added: 0, more: 0 };
    added.set(queue, of);
    of.added += addedBy(planned);
    of.more += waits(stateAfter(change)) - waits(stateBefore(change));
  }
  for (const [queue, of] of added ?? []) {
    const count = Math.min(of.added, backlogOf(queue) + of.more - queue.settings.maxBacklog);
    if (count <= 0) continue;
    const changed = new Set<Pid>();
    const fresh: Pid[] = [];
    for (const planned of draft.changes) {
      if (planned.queue !== queue) continue;
      changed.add(planned.change.pid);
      if (planned.change.kind === 'enqueue') fresh.push(planned.change.pid);
    }
    const first = firstOf(draft, queue, changed, count);
    if (first === undefined && (refills.get(queue) ?? 0) < MOST_REFILLS) return { queue, wanted: count };
    let dropped = 0;
    for (const pid of [...(first ?? []), ...fresh.reverse()]) {
      if (dropped < count && drop(draft, queue, pid, now)) dropped++;
    }
  }
  if (draft.hasEnds) settleEnds(draft, now);
  return undefined;
}

/** The head of a queue that must be read. */
export interface MissingHead {
  readonly queue: Queue;
  readonly wanted: number;
}

/** Reads the head of a queue, and counts that. */
export async function readHead(
  engineState: EngineState,
  { queue, wanted }: MissingHead,
  refills: Map<Queue, number>,
): Promise<void> {
  refills.set(queue, (refills.get(queue) ?? 0) + 1);
  await refill(engineState, queue, wanted);
}

/** The first tasks in memory, those of keys among them: of each key at least one. Undefined: they must be read. */
function withLanes(cache: QueueCache, lanes: Lanes, count: number): LaneTask[] | undefined {
  if (!lanes.isLoaded) return undefined;
  const head: LaneTask[] = [...lanes.tasks()];
  let left = count;
  for (const { pid, state } of cache.head()) {
    if (left-- === 0) break;
    head.push({ pid, state });
  }
  return head.sort((a, b) => (a.pid < b.pid ? -1 : 1));
}

/** The first available tasks of a queue after the changes of a draft. Undefined: the head of the queue must be read. */
function firstOf(draft: TaskDraft, queue: Queue, changed: ReadonlySet<Pid>, count: number): Pid[] | undefined {
  const isAvailable = (pid: Pid): boolean => draft.find(queue, pid)?.state.visibility.kind === 'available';
  const inDraft = [...changed].filter(isAvailable).sort();
  const first: Pid[] = [];
  let at = 0;
  const cache = queue.warmCache;
  const head = queue.lanes === undefined ? cache.head() : withLanes(cache, queue.lanes, count + changed.size);
  if (head === undefined) return undefined;
  for (const { pid } of head) {
    for (let next = inDraft[at]; next !== undefined && next < pid && first.length < count; next = inDraft[++at])
      first.push(next);
    if (first.length === count) return first;
    if (!changed.has(pid)) first.push(pid);
  }
  for (; first.length < count; at++) {
    const next = inDraft[at];
    if (!cache.knowsReadyUpTo(next)) return undefined;
    if (next === undefined) break;
    first.push(next);
  }
  return first;
}
