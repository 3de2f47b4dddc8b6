import type { Key, Pid, QueueId } from '../../domain/ids.ts';
import { pointersOf, queueOfPointer } from '../../domain/key-pointer.ts';
import { afterPrefix, pidOfTaskKey, taskKey } from '../../domain/keys.ts';
import type { EngineState } from '../../engine-state.ts';
import { EngineView } from '../../pending/engine-view.ts';
import { Family } from '../../ports/store.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords } from '../../records/record-store.ts';
import { type Attempt, decide } from '../decide.ts';
import { TaskDraft } from '../task-draft.ts';

const POINTERS_PER_ATOM = 1000;

/** Removes the pointers of the keys of a deleted queue. They are found no more; this frees their space. */
export async function forgetKeys(engineState: EngineState, keys: Queue, queueId: QueueId): Promise<void> {
  const first = taskKey(keys.prefix, pointersOf(queueId) as Pid);
  // Pointers of an ended generation are never added, so one pass over those that are durable now finds all.
  await engineState.durable();
  for (let gte = first; ; ) {
    const limit = { rows: POINTERS_PER_ATOM, bytes: Number.MAX_SAFE_INTEGER };
    const rows = await engineState.store.scan(Family.data, { gte, lt: afterPrefix(first) }, limit);
    const last = rows.at(-1);
    if (last === undefined) return;
    gte = `${last.key}\0` as Key;
    const { durable } = await decide(engineState, keys.partition, (now, reads): Attempt<undefined> => {
      const draft = new TaskDraft(new EngineView(engineState, now, reads));
      for (const { key } of rows) keyRecords.remove(draft, keys.ledger.name.group, pidOfTaskKey(key));
      const { needs, changes } = draft;
      if (needs.length > 0) return { kind: 'needs', needs };
      return { kind: 'decided', result: undefined, changes: changes.length === 0 ? undefined : { changes } };
    });
    await durable;
  }
}

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
