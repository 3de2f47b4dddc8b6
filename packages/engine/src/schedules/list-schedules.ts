import type { QueueName } from '@taskmaster/proto';
import type { Pid } from '../domain/ids.ts';
import { afterPrefix, pidAfter, pidOfTaskKey, taskKey } from '../domain/keys.ts';
import type { ListSchedulesCommand, SchedulePage, ScheduleView } from '../domain/schedules/schedule-commands.ts';
import type { EngineState } from '../engine-state.ts';
import { scanAll } from '../log/scan-all.ts';
import { Family } from '../ports/store.ts';
import type { Queue } from '../queues/queue.ts';
import { scheduleRecords } from '../records/record-store.ts';
import { decodeRecord, keyOf, nameOf, viewOf } from './record.ts';

/** Runs that one listing computes, in one turn of the event loop: a cron expression takes up to a millisecond for each. */
const MOST_RUNS = 100;
/** Size of the records of a page, in bytes, so that they fit into one reply. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** The schedules of a group, or of all groups here, in the order of their groups and names. */
export async function listSchedules(engineState: EngineState, command: ListSchedulesCommand): Promise<SchedulePage> {
  const { nextRuns } = command;
  const most = Math.min(command.limit, Math.floor(MOST_RUNS / Math.max(1, nextRuns)));
  const room: Room = { schedules: command.name === undefined ? most : 1, bytes: PAGE_BYTES };
  const schedules: ScheduleView[] = [];
  let after: QueueName | undefined;
  for (const queue of queuesOf(engineState, command)) {
    if (room.schedules <= 0 || room.bytes <= 0) after = schedules.at(-1)?.schedule;
    if (after !== undefined) break;
    const { group } = queue.ledger.name;
    const first = firstIn(group, command);
    const { rows, last } = await readRecords(engineState, queue, first, room);
    for (const [key, data] of rows) {
      if (command.name !== undefined && key !== first) continue;
      schedules.push(viewOf({ group, name: nameOf(key) }, decodeRecord(data), nextRuns));
      room.schedules--;
      room.bytes -= data.byteLength;
    }
    after = last === undefined ? undefined : { group, name: nameOf(last) };
  }
  await engineState.durable();
  return { schedules, after: command.name === undefined ? after : undefined };
}

/** The queues of schedules that a listing reads, in order. */
function* queuesOf(engineState: EngineState, { group, isReadable, after }: ListSchedulesCommand): Generator<Queue> {
  if (group !== undefined) {
    const queue = engineState.table.get(scheduleRecords.of(group));
    if (queue !== undefined) yield queue;
    return;
  }
  const first = after && { group: after.group, name: '' };
  for (const queue of engineState.schedules.inOrder({}, first)) {
    if (queue.dropped || queue.ledger.size === 0) continue;
    if (isReadable === undefined || isReadable(queue.ledger.name.group)) yield queue;
  }
}

/** The key at which a listing begins in a group. */
function firstIn(group: string, { name, after }: ListSchedulesCommand): Pid {
  if (name !== undefined) return keyOf(name);
  return after?.group === group ? pidAfter(keyOf(after.name)) : NO_KEY;
}

/** What still fits into a page. */
interface Room {
  schedules: number;
  bytes: number;
}

interface Records {
  /** In order of their keys. */
  readonly rows: ReadonlyMap<Pid, Uint8Array>;
  /** The key behind which more records may be. Undefined: these are all. */
  readonly last: Pid | undefined;
}

const NO_KEY = '' as Pid;

/** The records from a key on, as many as fit into a page: at least one. */
export async function readRecords(
  engineState: EngineState,
  queue: Queue,
  first: Pid,
  room: Readonly<Room>,
): Promise<Records> {
  using _hold = queue.hold();
  const { stored, end } = await readStored(engineState, queue, first, room);
  // What the store does not show yet, as far as it was read.
  for (const { pid, now, data } of queue.pendingChanges()) {
    if (pid < first || (end !== undefined && pid > end)) continue;
    if (now === undefined) stored.delete(pid);
    else if (data !== undefined) stored.set(pid, data);
  }
  const keys = [...stored.keys()].sort((a, b) => (a < b ? -1 : 1));
  const rows = new Map<Pid, Uint8Array>();
  let bytes = 0;
  for (const key of keys) {
    const data = stored.get(key);
    if (data === undefined) continue;
    bytes += data.byteLength;
    if (rows.size === room.schedules || (rows.size > 0 && bytes > room.bytes))
      return { rows, last: [...rows.keys()].at(-1) };
    rows.set(key, data);
  }
  return { rows, last: end };
}

/** `end`: the last key that was read. Undefined: there are no more rows. */
async function readStored(
  engineState: EngineState,
  queue: Queue,
  first: Pid,
  room: Readonly<Room>,
): Promise<{ stored: Map<Pid, Uint8Array>; end: Pid | undefined }> {
  const stored = new Map<Pid, Uint8Array>();
  let bytes = 0;
  const range = { gte: taskKey(queue.prefix, first), lt: afterPrefix(queue.prefix) };
  for await (const { key, value } of scanAll(engineState.store, Family.data, range)) {
    const pid = pidOfTaskKey(key);
    stored.set(pid, value);
    bytes += value.byteLength;
    if (stored.size > room.schedules || bytes > room.bytes) return { stored, end: pid };
  }
  return { stored, end: undefined };
}
