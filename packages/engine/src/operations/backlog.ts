import { EnqueueResult, WhenFull } from '@taskmaster/proto';
import type { EnqueueItem } from '../domain/commands.ts';
import type { Instant, Pid, Ticket } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { isLeased, limitKeyOf, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { type PlannedChange, stateAfter, stateBefore } from '../planned-atom.ts';
import { refill } from '../queues/cache/refill.ts';
import { firstOfKey } from '../queues/lanes/read-lanes.ts';
import type { Queue } from '../queues/queue.ts';
import { endCancelled } from './ends/leave-end.ts';
import { mayBeDue } from './expire.ts';
import { settleEnds } from './flows/settle-ends.ts';
import { headPids } from './get-and-peek.ts';
import type { Objection, PlannedUpdate, UpdateView } from './plan-update.ts';
import type { DraftMark, TaskDraft } from './task-draft.ts';

const { WHEN_FULL_DROP_NEWEST, WHEN_FULL_DROP_OLDEST, WHEN_FULL_REFUSE } = WhenFull;

/** How long a caller should wait when as many tasks wait as may. */
const RETRY_MS = 1_000;
/** Reads of the first tasks of a queue or key, before the tasks to drop are those that are known. */
const MOST_READS = 4;

/** All tasks of a queue. Other scopes of a cap are those with a limit key, which is never empty. */
const ALL = '';

const reasonOf = (queue: Queue, scope: string): string =>
  `dropped: ${capOf(queue, scope)} tasks waited in the queue${withKey(scope)}`;

const withKey = (scope: string): string => (scope === ALL ? '' : ` with the key ${scope}`);

/**
 * Refuses an update, or drops its new tasks, if more tasks would wait in a queue, or with one key, than its settings allow. Those
 * that drop the oldest tasks do so when all updates of the atom are planned: see `dropOldest`.
 */
export function capBacklogs(
  enqueue: readonly (Pick<EnqueueItem, 'queue'> & Partial<EnqueueItem>)[],
  update: PlannedUpdate,
  view: Pick<UpdateView, 'now' | 'canShowDue'>,
): Objection | undefined {
  const { draft, mark } = update;
  const { now } = view;
  const added = addedSince(draft, mark.changes);
  if (added === undefined) return undefined;
  const before = waitingBefore(draft, mark);
  for (const [queue, scopes] of added) {
    const { whenFull } = queue.settings;
    let droppedOfKeys = 0;
    for (const [scope, addedTo] of keysFirst(scopes)) {
      const more = scope === ALL ? addedTo - droppedOfKeys : addedTo;
      if (more <= 0) continue;
      const most = capOf(queue, scope);
      const earlier = before.get(queue)?.get(scope) ?? 0;
      if (scope !== ALL && !queue.warmKeyBacklogs.isCounted) {
        // Nothing is read as long as all tasks with keys are so few.
        if (queue.ledger.keyed + earlier + more <= most) continue;
        return { kind: 'due', queues: new Set([queue]) };
      }
      const waiting = backlogOf(queue, scope) + earlier;
      // What is due counts as it is, whether or not a search has found it.
      const mayExceed = waiting + more + queue.ledger.leased > most;
      if (mayExceed && mayBeDue(queue, now) && view.canShowDue(queue)) return { kind: 'due', queues: new Set([queue]) };
      const excess = Math.min(more, waiting + more - most);
      if (excess <= 0) continue;
      if (whenFull === WHEN_FULL_REFUSE) return backlogFull(queue, scope, waiting);
      if (whenFull !== WHEN_FULL_DROP_NEWEST) continue;
      const dropped = dropNewest(enqueue, update, queue, scope, excess, now);
      if (scope !== ALL) droppedOfKeys += dropped;
    }
  }
  return undefined;
}

/** Numbers of tasks, by scope. */
type Scopes = Map<string, number>;

/** How many new tasks a draft has from a change on. Undefined: none that a cap is about. */
function addedSince({ changes }: TaskDraft, first: number): Map<Queue, Scopes> | undefined {
  let added: Map<Queue, Scopes> | undefined;
  for (let at = first; at < changes.length; at++) {
    const planned = changes[at];
    // Most queues have no such setting, and nothing is looked up for them.
    if (planned === undefined || !isCapped(planned.queue)) continue;
    added ??= new Map();
    count(added, planned, addedBy(planned));
  }
  return added;
}

/** Adds to each number for which the settings of the queue have a cap. */
function count(to: Map<Queue, Scopes>, { queue, change }: PlannedChange, more: number): void {
  const { maxBacklog, maxKeyBacklog } = queue.settings;
  const scopes: Scopes = to.get(queue) ?? new Map();
  to.set(queue, scopes);
  if (maxBacklog > 0) scopes.set(ALL, (scopes.get(ALL) ?? 0) + more);
  if (maxKeyBacklog === 0) return;
  const key = limitKeyOf(change.kind === 'dequeue' ? change.before : change.after);
  if (key !== undefined) scopes.set(key, (scopes.get(key) ?? 0) + more);
}

/** What is dropped of keys makes room in the queue. */
function keysFirst(scopes: Scopes): (readonly [string, number])[] {
  const keys = [...scopes].filter(([scope]) => scope !== ALL);
  const all = scopes.get(ALL);
  return all === undefined ? keys : [...keys, [ALL, all]];
}

/** Settings match the names of reserved queues, too, whose tasks are records. */
const isCapped = ({ isReserved, settings }: Queue): boolean =>
  (settings.maxBacklog > 0 || settings.maxKeyBacklog > 0) && !isReserved;

const capOf = ({ settings }: Queue, scope: string): number =>
  scope === ALL ? settings.maxBacklog : settings.maxKeyBacklog;

/** Tasks that wait. */
const backlogOf = (queue: Queue, scope: string): number =>
  scope === ALL ? queue.ledger.available + queue.ledger.delayed : queue.warmKeyBacklogs.of(scope);

const waits = (state: TaskState | undefined): number => (state === undefined || isLeased(state) ? 0 : 1);

/** What a change adds to the new tasks. Dead letters come whatever waits, and a task that comes back is no new one. */
function addedBy({ change }: PlannedChange): number {
  if (change.kind === 'dequeue') return -waits(change.before);
  return change.kind === 'enqueue' && change.after.history?.origin === undefined ? 1 : 0;
}

/** What a change adds to the waiting tasks. */
const waitingBy = ({ change }: PlannedChange): number => waits(stateAfter(change)) - waits(stateBefore(change));

/** What the changes before an update add to the waiting tasks. Marks only move on, so it adds the latest ones. */
function waitingBefore(draft: TaskDraft, { changes }: DraftMark): ReadonlyMap<Queue, Scopes> {
  draft.waiting ??= { changes: 0, more: new Map() };
  const { waiting } = draft;
  for (; waiting.changes < changes; waiting.changes++) {
    const planned = draft.changes[waiting.changes];
    if (planned !== undefined && isCapped(planned.queue)) count(waiting.more, planned, waitingBy(planned));
  }
  return waiting.more;
}

function backlogFull(queue: Queue, scope: string, waiting: number): Refusal {
  const limit = capOf(queue, scope);
  const problem = `${waiting} tasks wait in the queue ${queue.fullName}${withKey(scope)}: its settings allow ${limit}`;
  const metadata = { queue: queue.fullName, limit: String(limit), used: String(waiting) };
  return new Refusal('BACKLOG_FULL', problem, {
    retryDelayMs: RETRY_MS,
    metadata: scope === ALL ? metadata : { ...metadata, limitKey: scope },
  });
}

/** Returns how many it has dropped. */
function dropNewest(
  enqueue: readonly (Pick<EnqueueItem, 'queue'> & Partial<EnqueueItem>)[],
  { start, end, draft, outcomes, firstOutcome }: PlannedUpdate,
  queue: Queue,
  scope: string,
  most: number,
  now: Instant,
): number {
  let dropped = 0;
  for (let at = end.enqueue - 1; at >= start.enqueue && dropped < most; at--) {
    const place = firstOutcome + at - start.enqueue;
    const [item, outcome] = [enqueue[at], outcomes[place]];
    if (item === undefined || outcome?.result !== EnqueueResult.ENQUEUE_RESULT_CREATED) continue;
    const isAssigned = item.pid === undefined;
    if (draft.queue(item.queue) !== queue || !drop(draft, queue, scope, outcome.pid, now, isAssigned)) continue;
    outcomes[place] = { ...outcome, result: EnqueueResult.ENQUEUE_RESULT_DROPPED };
    dropped++;
  }
  return dropped;
}

/**
 * False: it does not wait any more, or has another key. `isAssigned`: the atom has assigned its PID. No task had it before, and
 * nothing may be read for it, because it is another one in each attempt.
 */
function drop(draft: TaskDraft, queue: Queue, scope: string, pid: Pid, now: Instant, isAssigned: boolean): boolean {
  const task = draft.find(queue, pid);
  if (task === undefined || isLeased(task.state)) return false;
  if (scope !== ALL && limitKeyOf(task.state) !== scope) return false;
  endCancelled(draft, queue, pid, task, reasonOf(queue, scope), now, { how: 'dropped', isAssigned });
  return true;
}

/** The first tasks of a queue or a key, which must be read. */
export interface MissingTasks {
  readonly queue: Queue;
  readonly scope: string;
  readonly wanted: number;
}

/** What was read for one decision of the first tasks of queues and keys. */
export class OldestTasks {
  readonly #read = new Map<Queue, Map<string, { times: number; pids: readonly Pid[] | undefined; ticket: Ticket }>>();

  /** How often they were read. */
  timesOf(queue: Queue, scope: string): number {
    return this.#read.get(queue)?.get(scope)?.times ?? 0;
  }

  /**
   * Those that were available when they were read, in order. Undefined: they are in the head of the queue in memory, or the queue
   * has changed since and they must be read again.
   */
  of(queue: Queue, scope: string): readonly Pid[] | undefined {
    const read = this.#read.get(queue)?.get(scope);
    const isStale = read !== undefined && read.ticket !== queue.ledger.ticket && read.times < MOST_READS;
    return isStale ? undefined : read?.pids;
  }

  async read(engineState: EngineState, { queue, scope, wanted }: MissingTasks): Promise<void> {
    const scopes = this.#read.get(queue) ?? new Map();
    this.#read.set(queue, scopes);
    const times = this.timesOf(queue, scope) + 1;
    // The cache may have no room for what a refill has read.
    const isRefilled = times === 1 && scope === ALL && queue.lanes === undefined;
    const { ticket } = queue.ledger;
    if (isRefilled) await refill(engineState, queue, wanted);
    const pids = isRefilled ? undefined : await firstPids(engineState, queue, scope, wanted);
    scopes.set(scope, { times, pids, ticket });
  }
}

const firstPids = (engineState: EngineState, queue: Queue, scope: string, wanted: number): Promise<readonly Pid[]> =>
  scope === ALL ? headPids(engineState, queue, { limit: wanted }) : firstOfKey(engineState, queue, scope, wanted);

/**
 * Drops the first available tasks of the queues and keys whose settings say so, one for each task that a draft adds beyond what
 * may wait. Returns what must be read first. If all other tasks are delayed, the newest ones go.
 * @param enqueue the items among which are those of all PIDs that the draft did not assign. Undefined: it has assigned none.
 */
export function dropOldest(
  draft: TaskDraft,
  now: Instant,
  oldest: OldestTasks,
  enqueue?: readonly Pick<EnqueueItem, 'pid'>[],
): MissingTasks | undefined {
  const added = addedSince(draft, 0);
  if (added === undefined) return undefined;
  let given: ReadonlySet<Pid | undefined> | undefined;
  const isAssigned = ({ queue, change, hasMoved = false }: PlannedChange): boolean => {
    if (enqueue === undefined || hasMoved || change.pid <= (queue.ledger.largestPid ?? '')) return false;
    given ??= new Set(enqueue.map(({ pid }) => pid));
    return !given.has(change.pid);
  };
  const more = new Map<Queue, Scopes>();
  for (const planned of draft.changes) if (isCapped(planned.queue)) count(more, planned, waitingBy(planned));
  for (const [queue, scopes] of added) {
    if (queue.settings.whenFull !== WHEN_FULL_DROP_OLDEST) continue;
    let droppedOfKeys = 0;
    for (const [scope, addedTo] of keysFirst(scopes)) {
      const earlier = scope === ALL ? droppedOfKeys : 0;
      const waiting = backlogOf(queue, scope) + (more.get(queue)?.get(scope) ?? 0) - earlier;
      const excess = Math.min(addedTo - earlier, waiting - capOf(queue, scope));
      if (excess <= 0) continue;
      const changed = new Set<Pid>();
      const fresh = new Map<Pid, PlannedChange>();
      for (const planned of draft.changes) {
        if (planned.queue !== queue) continue;
        changed.add(planned.change.pid);
        if (planned.change.kind === 'enqueue') fresh.set(planned.change.pid, planned);
      }
      const first = firstOf(draft, { queue, scope, wanted: excess }, changed, oldest);
      if (first === undefined && oldest.timesOf(queue, scope) < MOST_READS)
        return { queue, scope, wanted: excess + changed.size };
      let dropped = 0;
      for (const pid of [...(first ?? []), ...[...fresh.keys()].reverse()]) {
        if (dropped >= excess) break;
        const planned = fresh.get(pid);
        if (drop(draft, queue, scope, pid, now, planned !== undefined && isAssigned(planned))) dropped++;
      }
      if (scope !== ALL) droppedOfKeys += dropped;
    }
  }
  if (draft.hasEnds) settleEnds(draft, now);
  return undefined;
}

/** The first available tasks of a queue or a key after the changes of a draft. Undefined: they must be read. */
function firstOf(
  draft: TaskDraft,
  { queue, scope, wanted }: MissingTasks,
  changed: ReadonlySet<Pid>,
  oldest: OldestTasks,
): Pid[] | undefined {
  const isOfScope = (pid: Pid): boolean => {
    const state = draft.find(queue, pid)?.state;
    return state?.visibility.kind === 'available' && (scope === ALL || limitKeyOf(state) === scope);
  };
  const inDraft = [...changed].filter(isOfScope).sort();
  const cache = queue.warmCache;
  const known = oldest.of(queue, scope);
  const isInMemory = scope === ALL && queue.lanes === undefined && known === undefined;
  const read = isInMemory ? pidsOf(cache.head()) : queue.ledger.available === 0 ? [] : known;
  if (read === undefined) return undefined;
  const first: Pid[] = [];
  let at = 0;
  for (const pid of read) {
    for (let next = inDraft[at]; next !== undefined && next < pid && first.length < wanted; next = inDraft[++at])
      first.push(next);
    if (first.length === wanted) return first;
    if (!changed.has(pid) && (isInMemory || isOfScope(pid))) first.push(pid);
  }
  for (; first.length < wanted; at++) {
    const next = inDraft[at];
    if (isInMemory && !cache.knowsReadyUpTo(next)) return undefined;
    if (next === undefined) break;
    first.push(next);
  }
  return first;
}

function* pidsOf(tasks: Iterable<{ readonly pid: Pid }>): Generator<Pid> {
  for (const { pid } of tasks) yield pid;
}
