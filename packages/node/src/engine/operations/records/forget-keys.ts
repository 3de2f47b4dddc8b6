import type { Key, Pid } from '@taskmaster/server/domain';
import { keysOf, pointersOf } from '../../../domain/key-pointer.ts';
import { afterPrefix, pidOfTaskKey, taskKey } from '../../../domain/keys.ts';
import { Family } from '../../../ports/store.ts';
import type { EngineState } from '../../engine-state.ts';
import { EngineView } from '../../pending/engine-view.ts';
import type { Queue } from '../../queues/queue.ts';
import { type Attempt, decide } from '../decide.ts';
import { TaskDraft } from '../task-draft.ts';

const POINTERS_PER_ATOM = 1000;

/** Removes the pointers of the keys of a deleted queue. They are found no more; this frees their space. */
export async function forgetKeys(memory: EngineState, { ledger, partition }: Queue): Promise<void> {
  const keys = memory.table.get(keysOf(ledger.name.group));
  if (keys === undefined) return;
  const first = taskKey(keys.prefix, pointersOf(ledger.queueId) as Pid);
  // Pointers of an ended generation are never added, so one pass over those that are durable now finds all.
  await memory.durable();
  for (let gte = first; ; ) {
    const limit = { rows: POINTERS_PER_ATOM, bytes: Number.MAX_SAFE_INTEGER };
    const rows = await memory.store.scan(Family.data, { gte, lt: afterPrefix(first) }, limit);
    const last = rows.at(-1);
    if (last === undefined) return;
    gte = `${last.key}\0` as Key;
    const { durable } = await decide(memory, partition, (now, reads): Attempt<undefined> => {
      const draft = new TaskDraft(new EngineView(memory, now, reads));
      for (const { key } of rows) {
        const pid = pidOfTaskKey(key);
        const pointer = draft.find(keys, pid);
        if (pointer !== undefined) draft.remove(keys, pid, pointer, 'moved');
      }
      const { needs, changes } = draft;
      if (needs.length > 0) return { kind: 'needs', needs };
      return { kind: 'decided', result: undefined, changes: changes.length === 0 ? undefined : { changes } };
    });
    await durable;
  }
}
