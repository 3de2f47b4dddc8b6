import { limits } from '@taskmaster/proto';
import type { GetCommand, PeekCommand, TaskView } from '../domain/commands.ts';
import type { Key, Pid } from '../domain/ids.ts';
import {
  afterPrefix,
  dueKey,
  instantOfDueKey,
  kindPrefix,
  laneOfKey,
  lanePrefix,
  lanesPrefix,
  pidAfter,
  pidOfDueKey,
  pidOfTaskKey,
  taskKey,
} from '../domain/keys.ts';
import type { SignalBox } from '../domain/signal-box.ts';
import { isLeased, isParked, kindOf, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { decodeTaskRow } from '../log/atom-rows.ts';
import { EngineView } from '../pending/engine-view.ts';
import { type AnyNeed, Reads } from '../pending/reads.ts';
import { Family } from '../ports/store.ts';
import type { CachedTask } from '../queues/cache/places.ts';
import type { Queue } from '../queues/queue.ts';
import { dueFor, showAllDue } from './expire.ts';
import { withChildren } from './flows/find-children.ts';
import { boxOf } from './flows/signal.ts';
import { TaskDraft } from './task-draft.ts';

/** Hidden tasks read for each task that a sample may show. */
const SAMPLE_FACTOR = 10;
/** Tasks that must start by an instant, and are available, that a sample of hidden tasks passes over. */
const MOST_STARTING = 10_000;
/** Rows of hidden tasks that a look at the head passes, in a queue in which tasks have limit keys. */
const MOST_LOOKED_AT = 10_000;
const ROWS_AT_ONCE = 500;
/** Limit keys, of each kind, that a look at the head asks. */
const MOST_LANES = 1_000;
const NO_KINDS: ReadonlyMap<string, unknown> = new Map();

/** GetTasks: the present state of tasks. */
export async function getTasks(engineState: EngineState, command: GetCommand): Promise<TaskView[]> {
  await showAllDue(engineState, dueFor(engineState, [command.queue]));
  const views = await view(engineState, command, command.includeData);
  return command.includeChildren ? withChildren(engineState, command.queue, views) : views;
}

/** PeekTasks: the head of a queue, or a sample of its leased or delayed tasks. */
export async function peekTasks(engineState: EngineState, command: PeekCommand): Promise<TaskView[]> {
  await showAllDue(engineState, dueFor(engineState, [command.queue]));
  const queue = engineState.table.get(command.queue);
  if (!queue) {
    await engineState.durable();
    return [];
  }
  if (command.kind === 'head') {
    const pids = await headPids(engineState, queue, command);
    const tasks = await view(engineState, { queue: command.queue, pids }, command.includeData);
    return tasks.filter(({ state }) => state?.visibility.kind === 'available' && accepts(command, state));
  }
  const { kind } = command;
  const sample = command.limit * SAMPLE_FACTOR;
  const pids = await (kind === 'waiting'
    ? waitingPids(engineState, queue, sample)
    : hiddenPids(engineState, queue, sample));
  const tasks = await view(engineState, { queue: command.queue, pids }, command.includeData);
  return tasks
    .filter(({ state }) => state?.visibility.kind === 'hidden' && peekKindOf(state) === kind && accepts(command, state))
    .sort((a, b) => shownAt(a) - shownAt(b))
    .slice(0, command.limit);
}

const accepts = ({ kinds }: Pick<PeekCommand, 'kinds'>, state: TaskState): boolean =>
  kinds === undefined || kinds.accepts(kindOf(state));

const peekKindOf = (state: TaskState): PeekCommand['kind'] =>
  isParked(state) ? 'waiting' : isLeased(state) ? 'leased' : 'delayed';

const shownAt = ({ state }: TaskView): number => (state?.visibility.kind === 'hidden' ? state.visibility.until : 0);

/** Available tasks, the first ones behind a PID. */
type Head = Pick<PeekCommand, 'limit' | 'after' | 'kinds'>;

/** The first PIDs, from memory if it has enough, otherwise from the store. Does not fill the cache: that would evict tasks. */
export async function headPids(engineState: EngineState, queue: Queue, head: Head): Promise<Pid[]> {
  const { limit, after, kinds } = head;
  if (queue.ledger.keyedReady > 0) return keyedHeadPids(engineState, queue, head);
  if (kinds?.acceptsNone === false) return [];
  const { firstMissing, readyCount } = queue.warmCache;
  if (firstMissing === undefined || (after === undefined && readyCount >= limit)) return firstOf(queue, limit, after);
  using _hold = queue.hold();
  const { readyFloor } = queue.ledger;
  const first = after === undefined || after < readyFloor ? readyFloor : pidAfter(after);
  const range = { gte: taskKey(queue.prefix, first), lt: afterPrefix(queue.prefix) };
  // Each pending change may make one row stale, unless its task has no rows yet. Read one more row for each.
  let rows = limit;
  for (const { mayHaveRow } of queue.pendingChanges()) if (mayHaveRow) rows++;
  const read = await engineState.store.scan(Family.ready, range, { rows, bytes: Number.MAX_SAFE_INTEGER });
  const pids = new Set(read.map(({ key }) => pidOfTaskKey(key)));
  for (const { pid, now } of queue.pendingChanges()) {
    if (now?.visibility.kind === 'available' && pid >= first) pids.add(pid);
    else pids.delete(pid);
  }
  return [...pids].sort((a, b) => (a < b ? -1 : 1)).slice(0, limit);
}

/** As `headPids`, of a queue in which tasks have limit keys: their rows are among those of hidden tasks. */
async function keyedHeadPids(engineState: EngineState, queue: Queue, { limit, after, kinds }: Head): Promise<Pid[]> {
  using _hold = queue.hold();
  const { prefix } = queue;
  const first = after === undefined ? ('' as Pid) : pidAfter(after);
  const lt = afterPrefix(prefix);
  const pids = new Set(
    await headOfKinds(engineState, queue, kinds?.among(queue.ledger.kinds ?? NO_KINDS) ?? [], first, limit),
  );
  for (const family of kinds?.acceptsNone === false ? [] : [Family.ready, Family.hidden]) {
    let found = 0;
    let looked = 0;
    for (let gte = taskKey(prefix, first); found < limit + queue.pendingCount && looked < MOST_LOOKED_AT; ) {
      const rows = await engineState.store.scan(
        family,
        { gte, lt },
        { rows: ROWS_AT_ONCE, bytes: Number.MAX_SAFE_INTEGER },
      );
      for (const { key, value } of rows) {
        const state = decodeTaskRow(value);
        if (state.visibility.kind !== 'available' || !accepts({ kinds }, state)) continue;
        pids.add(pidOfTaskKey(key));
        found++;
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < ROWS_AT_ONCE) break;
      looked += rows.length;
      gte = `${last.key}\0` as Key;
    }
  }
  for (const { pid, now } of queue.pendingChanges()) {
    if (now?.visibility.kind === 'available' && pid >= first && accepts({ kinds }, now)) pids.add(pid);
    else pids.delete(pid);
  }
  return [...pids].sort().slice(0, limit);
}

/** The first ones with these kinds, of each limit key: they are found however many tasks of other kinds are before them. */
async function headOfKinds(
  { store }: EngineState,
  queue: Queue,
  kinds: Iterable<string>,
  first: Pid,
  limit: number,
): Promise<Pid[]> {
  const bytes = Number.MAX_SAFE_INTEGER;
  const most = limit + queue.pendingCount;
  let pids: Pid[] = [];
  let lanes = 0;
  for (const kind of kinds) {
    const lt = afterPrefix(kindPrefix(queue.prefix, kind));
    for (let gte = kindPrefix(queue.prefix, kind) as Key; lanes < MOST_LANES; lanes++) {
      const [next] = await store.scan(Family.due, { gte, lt }, { rows: 1, bytes });
      if (next === undefined) break;
      const lane = lanePrefix(queue.prefix, 'available', laneOfKey(next.key).lane);
      gte = afterPrefix(lane);
      // Behind the largest one that is kept there is nothing to find.
      const largest = pids.length < most ? undefined : pids.at(-1);
      const range = { gte: (lane + first) as Key, lt: largest === undefined ? gte : ((lane + largest) as Key) };
      const rows = range.gte < range.lt ? await store.scan(Family.due, range, { rows: most, bytes }) : [];
      if (rows.length === 0) continue;
      for (const { key } of rows) pids.push(laneOfKey(key).pid);
      pids = pids.sort().slice(0, most);
    }
  }
  return pids;
}

function firstOf(queue: Queue, limit: number, after: Pid | undefined): Pid[] {
  const pids: Pid[] = [];
  for (const { pid } of queue.warmCache.head(after)) {
    pids.push(pid);
    if (pids.length === limit) break;
  }
  return pids;
}

/** The end of the index of due times. Behind it is the one by limit key, which records do not have. */
export const endOfDue = ({ prefix, isReserved }: Queue): Key =>
  isReserved ? afterPrefix(prefix) : lanesPrefix(prefix);

/** PIDs of hidden tasks, those that show first. */
export async function hiddenPids(engineState: EngineState, queue: Queue, limit: number): Promise<Pid[]> {
  const { prefix, ledger } = queue;
  using _hold = queue.hold();
  // No task shows before the floor (L2).
  const range = { gte: dueKey(prefix, ledger.dueFloor, '' as Pid), lt: endOfDue(queue) };
  // As above, but a changed task may have a row for each of its earlier states.
  let rows = limit;
  for (const { others } of queue.pendingChanges()) rows += 2 + others.length;
  // Available tasks that must start are in the index, too. Without a bound a sample could take long.
  rows += Math.min(ledger.starting, MOST_STARTING);
  const read = await engineState.store.scan(Family.due, range, { rows, bytes: Number.MAX_SAFE_INTEGER });
  const hidden = read.filter(({ value }) => value.byteLength === 0);
  const shown = new Map(hidden.map(({ key }) => [pidOfDueKey(key), instantOfDueKey(key)]));
  for (const { pid, now } of queue.pendingChanges()) {
    const visibility = now?.visibility;
    if (visibility?.kind === 'hidden') shown.set(pid, visibility.until);
    else shown.delete(pid);
  }
  const first = [...shown].sort(([p, a], [q, b]) => a - b || (p < q ? -1 : 1)).slice(0, limit);
  return first.map(([pid]) => pid);
}

/** PIDs of hidden tasks in order, for a sample of those that are parked: they are not in the index of due times. */
async function waitingPids(engineState: EngineState, queue: Queue, limit: number): Promise<Pid[]> {
  if (queue.ledger.waiting === 0) return [];
  using _hold = queue.hold();
  const range = { gte: queue.prefix as Key, lt: afterPrefix(queue.prefix) };
  const read = await engineState.store.scan(Family.hidden, range, { rows: limit, bytes: Number.MAX_SAFE_INTEGER });
  const pids = new Set(read.map(({ key }) => pidOfTaskKey(key)));
  for (const { pid, now } of queue.pendingChanges()) {
    if (now !== undefined && isParked(now)) pids.add(pid);
    if (pids.size >= 2 * limit) break;
  }
  return [...pids];
}

type Names = Omit<GetCommand, 'includeData'>;

async function view(engineState: EngineState, names: Names, includeData: boolean): Promise<TaskView[]> {
  using reads = new Reads(engineState);
  let hasRoom = !includeData;
  for (;;) {
    const { queue, found, needs } = look(engineState, names, reads);
    if (needs.length > 0) {
      hasRoom = !includeData;
      await reads.fetch(needs);
      continue;
    }
    if (!hasRoom) {
      await reads.makeRoomForAnswer(shownBytes(found));
      hasRoom = true;
      continue;
    }
    const payloads = queue && includeData ? await payloadsOf(engineState, queue, found) : NO_PAYLOADS;
    if (payloads === undefined) continue;
    await engineState.durable();
    return found.map(({ pid, key, task, signals }) => {
      return { queue: names.queue, pid, key, state: task?.state, data: payloads.get(pid), signals };
    });
  }
}

/** A task that was asked for. Undefined: there is none, or it must be read first. */
interface Found {
  readonly pid: Pid;
  readonly key: string | undefined;
  readonly task: CachedTask | undefined;
  /** The signals that came for it, if they were asked for. */
  readonly signals: SignalBox | undefined;
}

interface Look {
  readonly queue: Queue | undefined;
  readonly found: readonly Found[];
  readonly needs: readonly AnyNeed[];
}

/** Looks for tasks by their PIDs and keys. */
function look(
  engineState: EngineState,
  { queue: name, pids, keys = [], includeSignals = false }: Names,
  reads: Reads,
): Look {
  const draft = new TaskDraft(new EngineView(engineState, engineState.clock.now(), reads));
  const queue = draft.queue(name);
  const find = (pid: Pid | undefined, key?: string): Found => {
    const task = queue === undefined || pid === undefined ? undefined : draft.find(queue, pid);
    const hasBox = includeSignals && task?.state.history?.waits?.box === true;
    const signals = queue === undefined || pid === undefined || !hasBox ? undefined : boxOf(draft, queue, pid);
    return { pid: pid ?? NO_PID, key, task, signals };
  };
  const byPid = pids.map((pid) => find(pid));
  const byKey = keys.map((key) => find(queue && draft.pidOfKey(queue, key), key));
  return { queue, found: [...byPid, ...byKey], needs: draft.needs };
}

const NO_PID = '' as Pid;

const NO_PAYLOADS: ReadonlyMap<Pid, Uint8Array> = new Map();

/** Payload bytes of these tasks, as far as one reply can hold them. */
function shownBytes(found: readonly Found[]): number {
  const bytes = found.reduce((sum, { task }) => sum + (task?.state.dataBytes ?? 0), 0);
  return Math.min(bytes, limits.replyDataBytes);
}

/** Reads the payloads until one reply is full. Undefined: one of them was replaced or removed meanwhile. */
async function payloadsOf(
  engineState: EngineState,
  queue: Queue,
  found: readonly Found[],
): Promise<ReadonlyMap<Pid, Uint8Array> | undefined> {
  const payloads = new Map<Pid, Uint8Array>();
  const missing: { pid: Pid; key: Key }[] = [];
  let room = limits.replyDataBytes;
  for (const { pid, task } of found) {
    if (!task) continue;
    room -= task.state.dataBytes;
    if (room < 0) break;
    if (task.data) payloads.set(pid, task.data);
    else if (task.state.dataBytes > 0) missing.push({ pid, key: taskKey(queue.prefix, pid) });
  }
  if (missing.length === 0) return payloads;
  using _hold = queue.hold();
  const rows = await engineState.store.get(
    Family.data,
    missing.map(({ key }) => key),
  );
  for (const [i, { pid }] of missing.entries()) {
    const row = rows[i];
    const now = queue.lookUp(pid);
    // Memory has every payload that the store may not show yet.
    const isSame = now.kind === 'unknown' || (now.kind === 'task' && now.task.data === undefined);
    if (queue.dropped || !isSame) return undefined;
    if (row) payloads.set(pid, row);
  }
  return payloads;
}
