import type { QueueName } from '@taskmaster/proto';
import type { ShownChildren, TaskView } from '../../domain/commands.ts';
import type { Key, Pid } from '../../domain/ids.ts';
import { childrenOf, decodeChild } from '../../domain/key-pointer.ts';
import { afterPrefix, taskKey } from '../../domain/keys.ts';
import { isParked } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { Family, type Row } from '../../ports/store.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords } from '../../records/record-store.ts';

/** Records of tasks with parents that one search looks at, and reads at once. */
const MOST_LOOKED_AT = 10_000;
const ROWS_AT_ONCE = 500;
/** As many records a scan counts for at least: a group may have 100,000 queues, and most of them no such records. */
const SCAN_ROWS = 5;
/** Children that a reply names, and what their names may take. */
const MOST_CHILDREN = 200;
const MOST_BYTES = 128 * 1024;

type Found = { -readonly [K in keyof ShownChildren]: ShownChildren[K] } & { tasks: ShownChildren['tasks'][number][] };

/**
 * The tasks with the children for which they wait. Tasks know their parents, and not the other way, so it looks through the
 * records by which parents hear of deleted queues: each task with parents has one.
 */
export async function withChildren(
  engineState: EngineState,
  { group, name }: QueueName,
  views: readonly TaskView[],
): Promise<TaskView[]> {
  const found = new Map<string, Found>();
  const shown = views.map((view): TaskView => {
    const { pid, state } = view;
    if (state === undefined || !isParked(state) || state.history?.waits?.signals === 0) return view;
    const children: Found = { tasks: [], isCut: false };
    found.set(nameOf(name, pid, undefined), children);
    if (state.history?.key !== undefined) found.set(nameOf(name, pid, state.history.key), children);
    return { ...view, children };
  });
  if (found.size > 0) await findChildren(engineState, group, found);
  return shown;
}

async function findChildren(engineState: EngineState, group: string, found: ReadonlyMap<string, Found>): Promise<void> {
  const keys = engineState.table.get(keyRecords.of(group));
  if (keys === undefined) return;
  // The payload of a record is in the store with its atom, and leaves with the one that removes it.
  await engineState.durable();
  let looked = 0;
  const left = { tasks: MOST_CHILDREN, bytes: MOST_BYTES };
  for (const queue of [...engineState.table.ofGroup(group)]) {
    if (queue.isReserved) continue;
    const prefix = taskKey(keys.prefix, childrenOf(queue.ledger.queueId) as Pid);
    for (let gte: Key | undefined = prefix; gte !== undefined; ) {
      if (looked >= MOST_LOOKED_AT) {
        for (const children of found.values()) children.isCut = true;
        return;
      }
      const range = { gte, lt: afterPrefix(prefix) };
      const limit = { rows: ROWS_AT_ONCE, bytes: Number.MAX_SAFE_INTEGER };
      const rows = await engineState.store.scan(Family.data, range, limit);
      for (const row of rows) note(queue, prefix, row, found, left);
      looked += Math.max(SCAN_ROWS, rows.length);
      const last = rows.at(-1);
      gte = last === undefined || rows.length < ROWS_AT_ONCE ? undefined : (`${last.key}\0` as Key);
    }
  }
}

/** Notes a child for each of the parents that it has among those in `found`. */
function note(
  queue: Queue,
  prefix: Key,
  { key, value }: Row,
  found: ReadonlyMap<string, Found>,
  left: { tasks: number; bytes: number },
): void {
  const child = decodeChild(value);
  const { name } = queue.ledger.name;
  for (const { queue: of, pid, key: parentKey, onFailure } of child.parents) {
    const children = found.get(nameOf(of, pid, parentKey));
    if (children === undefined) continue;
    // The name of a record with a long PID has its hash. A dead letter may have another PID than it had.
    const childPid = child.queue === name ? child.pid : (key.slice(prefix.length) as Pid);
    left.tasks--;
    left.bytes -= name.length + childPid.length;
    if (left.tasks < 0 || left.bytes < 0) children.isCut = true;
    else children.tasks.push({ queue: name, pid: childPid, onFailure });
  }
}

const nameOf = (queue: string, pid: Pid, key: string | undefined): string =>
  key === undefined ? `p${queue}\0${pid}` : `k${queue}\0${key}`;
