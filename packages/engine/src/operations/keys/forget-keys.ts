import { limits } from '@taskmaster/proto';
import type { Instant, Key, Pid, QueueId } from '../../domain/ids.ts';
import { decodeChild, isChildPid, pointersOf, queueOfPointer } from '../../domain/key-pointer.ts';
import { afterPrefix, pidOfTaskKey, taskKey } from '../../domain/keys.ts';
import type { EngineState } from '../../engine-state.ts';
import { EngineView } from '../../pending/engine-view.ts';
import { Family, type Row } from '../../ports/store.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords } from '../../records/record-store.ts';
import { type Attempt, decideSome } from '../decide.ts';
import { type HowEnded, tellParents } from '../flows/settle-ends.ts';
import { TaskDraft } from '../task-draft.ts';

const POINTERS_PER_ATOM = 1000;

/**
 * Removes the pointers of the keys of a deleted queue, and what else belongs to its tasks. They are found no more; this frees
 * their space, and parents hear that their children are gone.
 */
export async function forgetKeys(engineState: EngineState, keys: Queue, queueId: QueueId): Promise<void> {
  const first = taskKey(keys.prefix, pointersOf(queueId) as Pid);
  // Pointers of an ended generation are never added, so one pass over those that are durable now finds all.
  await engineState.durable();
  for (let gte = first; ; ) {
    const limit = { rows: POINTERS_PER_ATOM, bytes: Number.MAX_SAFE_INTEGER };
    const rows = untilTooMany(await engineState.store.scan(Family.data, { gte, lt: afterPrefix(first) }, limit));
    if (rows.length === 0) return;
    const { durable, count } = await decideSome(
      engineState,
      keys.partition,
      rows,
      (some, now, reads): Attempt<undefined> => {
        const draft = new TaskDraft(new EngineView(engineState, now, reads));
        for (const { key } of some) forget(draft, keys.ledger.name.group, pidOfTaskKey(key), now);
        draft.writeBoxes(now);
        const { needs, changes } = draft;
        if (needs.length > 0) return { kind: 'needs', needs };
        return { kind: 'decided', result: undefined, changes: changes.length === 0 ? undefined : { changes } };
      },
    );
    await durable;
    gte = `${rows[count - 1]?.key}\0` as Key;
  }
}

/** The first of these records whose children have together as many parents as an atom may tell, and one more. */
function untilTooMany(rows: readonly Row[]): readonly Row[] {
  let told = 0;
  const end = rows.findIndex(({ key, value }) => {
    if (isChildPid(pidOfTaskKey(key))) told += decodeChild(value).parents.length;
    return told > limits.toldParents;
  });
  return end < 0 ? rows : rows.slice(0, end + 1);
}

/** Removes a record of a deleted queue. If it is that of a child, its parents hear that it is gone. */
function forget(draft: TaskDraft, group: string, pid: Pid, now: Instant): void {
  const record = keyRecords.find(draft, group, pid);
  if (record === undefined) return;
  const data = isChildPid(pid) ? keyRecords.dataOf(draft, record) : undefined;
  draft.remove(record.queue, pid, record.task, 'moved');
  if (data !== undefined) tellParents(draft, group, decodeChild(data), DELETED, now);
}

const DELETED: HowEnded = { end: 'removed', result: undefined, reason: 'its queue was deleted' };

/**
 * Deleted queues whose pointers are still there, because a crash or a hand-off came before they were removed. One read for each
 * queue that has keys. `goesOn`: false ends it.
 */
export async function* deletedWithKeys(
  engineState: EngineState,
  keys: Queue,
  goesOn: () => boolean,
): AsyncGenerator<QueueId> {
  const { group } = keys.ledger.name;
  const queueIds = (): Set<QueueId> =>
    new Set([...engineState.table.ofGroup(group)].map(({ ledger }) => ledger.queueId));
  const limit = { rows: 1, bytes: Number.MAX_SAFE_INTEGER };
  const lt = afterPrefix(keys.prefix);
  let known = queueIds();
  for (let gte = keys.prefix as Key; !keys.dropped && goesOn(); ) {
    const [row] = await engineState.store.scan(Family.data, { gte, lt }, limit);
    if (row === undefined) return;
    const queueId = queueOfPointer(pidOfTaskKey(row.key));
    if (!known.has(queueId)) {
      // It may be a new queue.
      known = queueIds();
      if (!known.has(queueId)) yield queueId;
    }
    gte = afterPrefix(taskKey(keys.prefix, pointersOf(queueId) as Pid));
  }
}
