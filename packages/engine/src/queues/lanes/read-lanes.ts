import type { Key, Pid } from '../../domain/ids.ts';
import { afterPrefix, laneOfKey, lanePrefix, lanesPrefix, ordersPrefix, pidAfter } from '../../domain/keys.ts';
import { type LaneName, laneOf, limitKeyOf, type TaskState } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { decodeTaskRow } from '../../log/atom-rows.ts';
import { Family } from '../../ports/store.ts';
import { readPayloads } from '../cache/read-payloads.ts';
import type { Queue } from '../queue.ts';
import { laneId } from './lane.ts';
import { type FoundLane, KEPT_AT_LOAD, type Lanes, type LaneTask, type LaneToRead } from './lanes.ts';

/** Lanes that one read reads. */
const LANES_AT_ONCE = 64;
/** Tasks of a lane that one read reads, if it reads many lanes, and of all lanes. */
const TASKS_PER_LANE = 16;
const TASKS_AT_ONCE = 2048;
/** Rows of a search for all lanes that are read at once. */
const ROWS_AT_ONCE = 512;
/** Tasks of which a search for all lanes remembers the PIDs, to count them. */
const MOST_COUNTED = 100_000;

/** Reads the tasks in lanes that requests need next. The queue must be held from before the read until after it. */
export async function readLanes(engineState: EngineState, queue: Queue): Promise<void> {
  const { lanes } = queue;
  if (lanes === undefined) return;
  if (!lanes.isLoaded) {
    await load(engineState, queue, lanes);
    return;
  }
  const toRead = lanes.toRead(LANES_AT_ONCE);
  const ofEach = Math.max(TASKS_PER_LANE, Math.floor(TASKS_AT_ONCE / Math.max(1, toRead.length)));
  const read = await Promise.all(toRead.map((lane) => readLane(engineState, queue, lane, ofEach)));
  if (queue.dropped || queue.lanes !== lanes || toRead.length === 0) return;
  const payloads = await readPayloads(engineState, queue, statesIn(read));
  if (queue.dropped || queue.lanes !== lanes) return;
  const pending = new Map<string, LaneTask[]>();
  for (const task of pendingTasks(queue)) {
    const name = laneOf(task.state);
    if (name === undefined || task.state.visibility.kind !== 'available') continue;
    const id = laneId(name);
    const ofLane = pending.get(id) ?? [];
    ofLane.push(task);
    pending.set(id, ofLane);
  }
  for (const [at, one] of toRead.entries()) {
    const stored = (read[at] ?? [])
      .filter(({ pid }) => queue.pendingOf(pid) === undefined)
      .map(({ pid, state }) => ({ pid, state, data: payloads.get(pid) }));
    const last = read[at]?.at(-1);
    const isAll = (read[at]?.length ?? 0) < ofEach;
    const recent = (pending.get(laneId(one.lane)) ?? []).filter(({ pid }) => pid >= one.from);
    lanes.add(one, [...stored, ...recent], isAll ? undefined : last && pidAfter(last.pid));
  }
}

/** Without a payload. */
type Row = Omit<LaneTask, 'data'>;

function* statesIn(read: readonly (readonly Row[])[]): Generator<readonly [Pid, TaskState]> {
  for (const ofLane of read) for (const { pid, state } of ofLane) yield [pid, state];
}

async function readLane(
  { store }: EngineState,
  { prefix }: Queue,
  { lane, from }: LaneToRead,
  most: number,
): Promise<Row[]> {
  const start = lanePrefix(prefix, 'available', lane);
  const range = { gte: (start + from) as Key, lt: afterPrefix(start) };
  const rows = await store.scan(Family.due, range, { rows: most, bytes: Number.MAX_SAFE_INTEGER });
  return rows.map(({ key: row, value }) => ({ pid: laneOfKey(row).pid, state: decodeTaskRow(value) }));
}

/** The first available tasks of a key, from the store and the changes that it does not show yet. */
export async function firstOfKey({ store }: EngineState, queue: Queue, key: string, most: number): Promise<Pid[]> {
  using _hold = queue.hold();
  const limit = { rows: most + queue.pendingCount, bytes: Number.MAX_SAFE_INTEGER };
  const kinds = [undefined, ...(queue.lanes?.kindsOf(key) ?? queue.ledger.kinds?.keys() ?? [])];
  const read = await Promise.all(
    kinds.map((kind) => {
      const lane = lanePrefix(queue.prefix, 'available', { limitKey: key, kind });
      return store.scan(Family.due, { gte: lane as Key, lt: afterPrefix(lane) }, limit);
    }),
  );
  const pids = new Set(read.flat().map((row) => laneOfKey(row.key).pid));
  for (const { pid, now } of queue.pendingChanges()) {
    if (now?.visibility.kind === 'available' && limitKeyOf(now) === key) pids.add(pid);
    else pids.delete(pid);
  }
  return [...pids].sort().slice(0, most);
}

/** Finds all lanes. Of a lane with many tasks it reads few, and passes the others. */
async function load(engineState: EngineState, queue: Queue, lanes: Lanes): Promise<void> {
  const { prefix } = queue;
  /** PIDs of leased tasks, and the first available ones, by lane. */
  const leased: (readonly [LaneName, Pid])[] = [];
  const found = new Map<string, FoundLane>();
  const foundFor = (name: LaneName): FoundLane => {
    const id = laneId(name);
    const lane = found.get(id) ?? { name, leased: 0, tasks: [], firstMissing: undefined, others: 0 };
    found.set(id, lane);
    return lane;
  };
  const others: (readonly [FoundLane, Pid])[] = [];
  const lt = ordersPrefix(prefix);
  for (let gte = lanesPrefix(prefix) as Key; ; ) {
    const rows = await engineState.store.scan(
      Family.due,
      { gte, lt },
      { rows: ROWS_AT_ONCE, bytes: Number.MAX_SAFE_INTEGER },
    );
    let last: { readonly lane: LaneName; readonly isPassed: boolean } | undefined;
    for (const { key: row, value } of rows) {
      const { tag, lane: name, pid } = laneOfKey(row);
      if (tag === 'leased') {
        leased.push([name, pid]);
        last = undefined;
        continue;
      }
      const lane = foundFor(name);
      if (lane.tasks.length < KEPT_AT_LOAD) {
        lane.tasks.push({ pid, state: decodeTaskRow(value), data: undefined });
      } else {
        lane.firstMissing ??= pid;
        if (others.length < MOST_COUNTED) others.push([lane, pid]);
        else lane.others = undefined;
      }
      last = { lane: name, isPassed: lane.firstMissing !== undefined };
    }
    const end = rows.at(-1)?.key;
    if (end === undefined || rows.length < ROWS_AT_ONCE) break;
    if (last?.isPassed) foundFor(last.lane).others = undefined;
    gte = last?.isPassed ? afterPrefix(lanePrefix(prefix, 'available', last.lane)) : (`${end}\0` as Key);
  }
  // The last changes correct what was read, also the changes since the read began.
  if (queue.dropped || queue.lanes !== lanes) return;
  for (const [name, pid] of leased) if (queue.pendingOf(pid) === undefined) foundFor(name).leased++;
  for (const [lane, pid] of others) if (lane.others !== undefined && queue.pendingOf(pid) === undefined) lane.others++;
  for (const lane of found.values()) {
    const { tasks } = lane;
    const kept = tasks.filter(({ pid }) => queue.pendingOf(pid) === undefined);
    tasks.splice(0, tasks.length, ...kept);
  }
  lanes.load(found.values(), pendingTasks(queue), engineState.clock.now());
}

function* pendingTasks(queue: Queue): Generator<LaneTask> {
  for (const { pid, now, data } of queue.pendingChanges()) if (now !== undefined) yield { pid, state: now, data };
}
