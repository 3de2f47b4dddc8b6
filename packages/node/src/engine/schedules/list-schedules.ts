import type { ListSchedulesCommand, Pid, SchedulePage } from '@taskmaster/server/domain';
import { afterPrefix, pidAfter, pidOfTaskKey, taskKey } from '../../domain/keys.ts';
import { scanAll } from '../../log/scan-all.ts';
import { Family } from '../../ports/store.ts';
import type { EngineState } from '../engine-state.ts';
import type { Queue } from '../queues/queue.ts';
import { decodeRecord, keyOf, nameOf, schedulesOf, viewOf } from './record.ts';

/** Runs that one listing computes: a cron expression takes a tenth of a millisecond for each. */
const MOST_RUNS = 500;
/** Size of the records of a page, in bytes, so that they fit into one reply. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** The schedules of a group in order of their names, bytewise. */
export async function listSchedules(memory: EngineState, command: ListSchedulesCommand): Promise<SchedulePage> {
  const { group, name, nextRuns, after } = command;
  const only = name === undefined ? undefined : keyOf(name);
  const most = Math.min(command.limit, Math.floor(MOST_RUNS / Math.max(1, nextRuns)));
  const queue = memory.table.get(schedulesOf(group));
  const first = only ?? (after === undefined ? NO_KEY : pidAfter(keyOf(after)));
  const records =
    queue === undefined ? ALL_READ : await readRecords(memory, queue, first, only === undefined ? most : 1);
  await memory.durable();
  const found = [...records.rows].filter(([key]) => only === undefined || key === only);
  const schedules = found.map(([key, data]) => viewOf({ group, name: nameOf(key) }, decodeRecord(data), nextRuns));
  const { last } = records;
  return { schedules, after: only === undefined && last !== undefined ? nameOf(last) : undefined };
}

interface Records {
  /** In order of their keys. */
  readonly rows: ReadonlyMap<Pid, Uint8Array>;
  /** The key behind which more records may be. Undefined: these are all. */
  readonly last: Pid | undefined;
}

const NO_KEY = '' as Pid;
const ALL_READ: Records = { rows: new Map(), last: undefined };

/** The records from a key on: `most` of them, or as many as fit into a page. */
async function readRecords(memory: EngineState, queue: Queue, first: Pid, most: number): Promise<Records> {
  using _hold = queue.hold();
  const { stored, end } = await readStored(memory, queue, first, most);
  // What the store does not show yet, as far as it was read.
  for (const { pid, task } of queue.pendingChanges()) {
    if (pid < first || (end !== undefined && pid > end)) continue;
    if (task === undefined) stored.delete(pid);
    else if (task.data !== undefined) stored.set(pid, task.data);
  }
  const keys = [...stored.keys()].sort((a, b) => (a < b ? -1 : 1));
  const rows = new Map<Pid, Uint8Array>();
  let bytes = 0;
  for (const key of keys) {
    const data = stored.get(key);
    if (data === undefined) continue;
    bytes += data.byteLength;
    if (rows.size === most || (rows.size > 0 && bytes > PAGE_BYTES)) return { rows, last: [...rows.keys()].at(-1) };
    rows.set(key, data);
  }
  return { rows, last: end };
}

/** `end`: the last key that was read. Undefined: there are no more rows. */
async function readStored(
  memory: EngineState,
  queue: Queue,
  first: Pid,
  most: number,
): Promise<{ stored: Map<Pid, Uint8Array>; end: Pid | undefined }> {
  const stored = new Map<Pid, Uint8Array>();
  let bytes = 0;
  const range = { gte: taskKey(queue.prefix, first), lt: afterPrefix(queue.prefix) };
  for await (const { key, value } of scanAll(memory.store, Family.data, range)) {
    const pid = pidOfTaskKey(key);
    stored.set(pid, value);
    bytes += value.byteLength;
    if (stored.size > most || bytes > PAGE_BYTES) return { stored, end: pid };
  }
  return { stored, end: undefined };
}
