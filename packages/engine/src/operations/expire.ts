import { limits, type QueueName } from '@taskmaster/proto';
import { UnreadableBytesError } from '../domain/bytes.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { afterPrefix, dueKey, instantOfDueKey, pidOfDueKey } from '../domain/keys.ts';
import { Refusal } from '../domain/refusal.ts';
import { AVAILABLE, dueOf, isParked, isTooLate } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import { Reads } from '../pending/reads.ts';
import { Family, StoreCorruptError } from '../ports/store.ts';
import { countKeys } from '../queues/lanes/count-keys.ts';
import { isSchedules, type Queue } from '../queues/queue.ts';
import type { QueuesLimit } from '../records/limit-table.ts';
import { endRecords, signalRecords } from '../records/record-store.ts';
import { afterFailedAttempt, afterMissedStart, cancelReasonOf, type FailedAttempt } from './attempts.ts';
import { type Attempt, decideSome } from './decide.ts';
import { endCancelled, moveAll } from './ends/leave-end.ts';
import { NO_WAITS, withWaits } from './flows/waiting.ts';
import { toDeadLetters } from './moves.ts';
import { TaskDraft, type TaskMove } from './task-draft.ts';

/** Tasks changed by one atom: enough to be fast, few enough not to delay other requests. */
const TASKS_PER_ATOM = 1000;
/** Payload bytes that one atom moves to dead-letter queues. They are read and written again. */
const DEAD_BYTES_PER_ATOM = 4 * 1024 * 1024;
/** How many queues look for expired leases at once. */
const SEARCHES_AT_ONCE = 16;
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
const NO_PID = '' as Pid;

/** True if hidden tasks of the queue may be due. Schedules, which are hidden by the system clock, have a search of their own. */
export const mayBeDue = (queue: Queue, now: Instant): boolean => !isSchedules(queue) && isFloorPast(queue, now);

/** As `mayBeDue`, for any queue. */
export const isFloorPast = ({ ledger }: Queue, now: Instant): boolean => ledger.hasDue && ledger.dueFloor <= now;

/**
 * Shows the tasks of a queue that are due: makes them available after expired leases, delays and backoffs, or moves them to
 * their dead-letter queues. Lazy (the paper, 5.6): called only when a request needs the tasks or counts of this queue or of
 * one of its dead-letter queues. Concurrent calls for a queue share one search.
 */
export function showDue(engineState: EngineState, queue: Queue): Promise<void> {
  queue.expiring ??= sweep(engineState, queue).then(
    () => {
      queue.expiring = undefined;
      engineState.listener.read(queue, undefined);
    },
    (error: unknown) => {
      queue.expiring = undefined;
      engineState.lastAttempts.failed(queue, engineState.clock.now());
      engineState.listener.read(queue, error);
      throw error;
    },
  );
  return queue.expiring;
}

/** As `showDue`, but returns false if the store refuses writes or rows are damaged. Callers then use the tasks as they are. */
async function tryShowDue(engineState: EngineState, queue: Queue): Promise<boolean> {
  try {
    await showDue(engineState, queue);
    return true;
  } catch (error) {
    if (!isExpected(error)) throw error;
    return false;
  }
}

/** Tasks of a queue may become due all the time. After this many searches an operation takes them as they are. */
const MOST_SEARCHES = 8;

/** The searches for due tasks that one operation has made, and for the number of those that wait with each key. */
export class DueSearches {
  /** Queues whose due tasks could not be shown, or were shown often enough. */
  readonly notShown = new Set<Queue>();
  readonly #counts = new Map<Queue, number>();

  async show(engineState: EngineState, queues: Iterable<Queue>): Promise<void> {
    for (const queue of queues) {
      if (queue.keyBacklogs?.isCounted === false) {
        await countKeys(engineState, queue);
        continue;
      }
      const count = (this.#counts.get(queue) ?? 0) + 1;
      this.#counts.set(queue, count);
      if (!(await tryShowDue(engineState, queue)) || count === MOST_SEARCHES) this.notShown.add(queue);
    }
  }
}

/** True if the store refuses writes, or rows are damaged. */
export const isExpected = (error: unknown): boolean =>
  error instanceof Refusal || error instanceof StoreCorruptError || error instanceof UnreadableBytesError;

/** Queues whose due tasks concern the named queues: these queues, and queues whose dead tasks may go to them. */
export function* dueFor(engineState: EngineState, names: Iterable<QueueName>): Generator<Queue> {
  const now = engineState.clock.now();
  for (const name of names) {
    const queue = engineState.table.get(name);
    if (queue && mayBeDue(queue, now)) yield queue;
    yield* engineState.lastAttempts.into(name, now);
  }
}

/** Queues whose expired leases may free slots of the limits. */
export function* dueUnder(limits: Iterable<QueuesLimit>, now: Instant): Generator<Queue> {
  const seen = new Set<Queue>();
  for (const limit of limits) {
    for (const queue of limit.due(now)) {
      if (seen.has(queue)) continue;
      seen.add(queue);
      yield queue;
    }
  }
}

/** As `dueFor`, but only queues with tasks that may have to move to a dead-letter queue. */
export function* deadFor(engineState: EngineState, name: QueueName): Generator<Queue> {
  const now = engineState.clock.now();
  const queue = engineState.table.get(name);
  if (queue && engineState.lastAttempts.isDue(queue, now)) yield queue;
  yield* engineState.lastAttempts.into(name, now);
}

/** Shows the due tasks of all these queues, so that later reads of them are exact. Skips damaged queues. */
export async function showAllDue(engineState: EngineState, queues: Iterable<Queue>): Promise<void> {
  const now = engineState.clock.now();
  const due: Queue[] = [];
  for (const queue of queues) if (mayBeDue(queue, now)) due.push(queue);
  const worker = async (): Promise<void> => {
    for (let queue = due.pop(); queue; queue = due.pop()) {
      // A search that is already running may have started too early to find all tasks that are due at this call.
      for (let searches = 0; searches < 2 && !queue.dropped && mayBeDue(queue, now); searches++) {
        await tryShowDue(engineState, queue);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(SEARCHES_AT_ONCE, due.length) }, worker));
}

/**
 * Tasks whose leases have ended leave the dead-letter queues first: a dead letter may get the PID of one. `before`: queues whose
 * searches have begun, because dead-letter queues may form a ring.
 */
async function sweep(engineState: EngineState, queue: Queue, before: Set<Queue> = new Set([queue])): Promise<void> {
  const now = engineState.clock.now();
  for (const name of engineState.lastAttempts.targetsOf(queue)) {
    const target = engineState.table.get({ group: queue.ledger.name.group, name });
    if (target === undefined || before.has(target) || !engineState.lastAttempts.isDue(target, now)) continue;
    before.add(target);
    await sweep(engineState, target, before);
  }
  await eachDue(engineState, queue, now, (pids) => show(engineState, queue, pids, now));
  engineState.lastAttempts.swept(queue, now);
}

/**
 * Calls back with the hidden tasks that may be due, in parts, and waits for each. `part` resolves with false if some stay due.
 */
export async function eachDue(
  engineState: EngineState,
  queue: Queue,
  now: Instant,
  part: (pids: readonly Pid[]) => Promise<boolean>,
): Promise<void> {
  using reads = new Reads(engineState);
  reads.hold(queue);
  const { prefix, ledger } = queue;
  const end = dueKey(prefix, (now + 1) as Instant, NO_PID);
  let gte = dueKey(prefix, ledger.dueFloor, NO_PID);
  let stayDue = false;
  for (let more = true; more; ) {
    const limit = { rows: TASKS_PER_ATOM, bytes: Number.MAX_SAFE_INTEGER };
    const rows = gte < end ? await engineState.store.scan(Family.due, { gte, lt: end }, limit) : [];
    const pids = new Set(rows.map(({ key }) => pidOfDueKey(key)));
    more = rows.length === TASKS_PER_ATOM;
    const last = rows.at(-1);
    if (last) gte = `${last.key}\0` as typeof gte;
    // Tasks whose rows are not in the store yet may be due, too.
    if (!more) for (const pid of recentlyHidden(queue, now)) pids.add(pid);
    if (!(await part([...pids]))) stayDue = true;
  }
  if (!stayDue) await raiseDueFloor(engineState, queue, now);
}

function* recentlyHidden(queue: Queue, now: Instant): Generator<Pid> {
  for (const { pid, now: state } of queue.pendingChanges()) {
    const due = state && dueOf(state);
    if (due !== undefined && due <= now) yield pid;
  }
}

/** Shows those of the tasks that are still hidden and due, in atoms of a bounded size. The index of due tasks may be stale. */
async function show(engineState: EngineState, queue: Queue, pids: readonly Pid[], now: Instant): Promise<true> {
  for (let from = 0; from < pids.length; )
    from += await showSome(engineState, queue, pids.slice(from, from + TASKS_PER_ATOM), now);
  return true;
}

/** Commits one atom. Returns how many of the PIDs are finished. */
async function showSome(engineState: EngineState, queue: Queue, pids: readonly Pid[], now: Instant): Promise<number> {
  const { result } = await decideSome(engineState, queue.partition, pids, (some, _now, reads): Attempt<Shown> => {
    if (queue.dropped) return { kind: 'decided', result: { expired: 0, done: some.length } };
    const draft = new TaskDraft(new EngineView(engineState, now, reads));
    const shown = showIn(draft, engineState, queue, some, now);
    draft.writeBoxes(now);
    if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
    const { changes, created } = draft;
    return { kind: 'decided', result: shown, changes: changes.length === 0 ? undefined : { changes, created } };
  });
  engineState.counts.leasesExpired += result.expired;
  return result.done;
}

interface Shown {
  readonly expired: number;
  /** Number of PIDs that are finished. */
  readonly done: number;
}

function showIn(draft: TaskDraft, engineState: EngineState, queue: Queue, pids: readonly Pid[], now: Instant): Shown {
  const dead: TaskMove[] = [];
  let deadBytes = 0;
  /** Parents that may hear of the ends. */
  let told = 0;
  let leasesExpired = 0;
  let done = 0;
  for (const pid of pids) {
    const task = draft.find(queue, pid);
    told += task?.state.history?.links?.parents.length ?? 0;
    if (done > 0 && told > limits.toldParents) break;
    const visibility = task?.state.visibility;
    if (task && isTooLate(task.state, now)) {
      const { kind, state, at, reason } = afterMissedStart(task.state, queue.settings);
      if (kind === 'dead') {
        deadBytes += state.dataBytes;
        if (dead.length > 0 && deadBytes > DEAD_BYTES_PER_ATOM) break;
        dead.push(toDeadLetters(queue, pid, task, state, at));
      } else {
        endCancelled(draft, queue, pid, task, reason, at, { now });
      }
    } else if (task && visibility?.kind === 'hidden' && visibility.until <= now) {
      if (visibility.lease) {
        const after = afterFailedAttempt(
          task.state,
          queue.settings,
          expired(visibility.until),
          now,
          engineState.random,
        );
        if (after.kind === 'dead') {
          deadBytes += task.state.dataBytes;
          if (dead.length > 0 && deadBytes > DEAD_BYTES_PER_ATOM) break;
          dead.push(toDeadLetters(queue, pid, task, after.state, visibility.until));
        } else if (after.kind === 'cancelled') {
          endCancelled(draft, queue, pid, task, cancelReasonOf(after.state) ?? '', visibility.until, { now });
        } else {
          draft.retry(queue, pid, task, after.state, after.kind);
        }
        leasesExpired++;
      } else if (isKeptForAWhile(queue)) {
        // The record has been kept long enough.
        draft.remove(queue, pid, task, 'moved');
      } else if (isParked(task.state)) {
        // It has waited for signals long enough, and runs without the others. It may still wait for its order.
        const waits = task.state.history?.waits ?? NO_WAITS;
        draft.change(queue, pid, task, withWaits(task.state, { ...waits, signals: 0 }, now));
      } else {
        draft.change(queue, pid, task, { ...task.state, visibility: AVAILABLE });
      }
    }
    done++;
  }
  moveAll(draft, dead, now);
  return { expired: leasesExpired, done };
}

/** Whether the records of the queue are hidden for as long as they are kept. */
const isKeptForAWhile = ({ ledger: { name } }: Queue): boolean => endRecords.has(name) || signalRecords.has(name);

const expired = (endedAt: Instant): FailedAttempt => ({
  endedAt,
  delayMs: undefined,
  error: undefined,
  isExpired: true,
  deadLetter: false,
});

/** Sets the ledger's floor to the time when the next hidden task is due, so that no search starts earlier (L2). */
async function raiseDueFloor(engineState: EngineState, queue: Queue, now: Instant): Promise<void> {
  const { prefix, ledger } = queue;
  const range = { gte: dueKey(prefix, (now + 1) as Instant, NO_PID), lt: afterPrefix(prefix) };
  const [next] = await engineState.store.scan(Family.due, range, { rows: 1, bytes: Number.MAX_SAFE_INTEGER });
  let floor = next ? instantOfDueKey(next.key) : NEVER;
  for (const { now: state } of queue.pendingChanges()) {
    const due = state && dueOf(state);
    if (due !== undefined && due < floor) floor = due;
  }
  ledger.dueFloor = floor;
}
