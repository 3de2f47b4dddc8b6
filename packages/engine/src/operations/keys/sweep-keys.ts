import type { QueueId } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { EngineState } from '../../engine-state.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords } from '../../records/record-store.ts';
import type { Sweep } from '../../sweeper.ts';
import { isExpected } from '../expire.ts';
import { deletedWithKeys, forgetKeys } from './forget-keys.ts';

/** A deleted queue whose keys may be left. */
export interface DeletedQueue {
  readonly group: string;
  readonly queueId: QueueId;
}

/** Removes the keys of deleted queues: of those in `deleted`, and of those that were deleted before a start or a move. */
export const sweepKeys = (deleted: Set<DeletedQueue>): Sweep<DeletedQueue | Queue> => ({
  everyMs: 500,
  *due({ adoptedKeys, holdings, table }) {
    for (const one of deleted) {
      const keys = table.get(keyRecords.of(one.group));
      // Without keys here, the node that holds the group now finds them itself.
      if (keys === undefined) deleted.delete(one);
      else if (holdings.canCommit(keys.partition)) yield one;
    }
    for (const keys of adoptedKeys) if (holdings.canCommit(keys.partition)) yield keys;
  },
  async sweep(engineState, one, goesOn) {
    await untilDamage('ledger' in one ? forgetAllDeleted(engineState, one, goesOn) : forgetDeleted(engineState, one));
    if (!goesOn()) return;
    if ('ledger' in one) engineState.adoptedKeys.delete(one);
    else deleted.delete(one);
  },
});

async function forgetDeleted(engineState: EngineState, { group, queueId }: DeletedQueue): Promise<void> {
  const keys = engineState.table.get(keyRecords.of(group));
  if (keys !== undefined) await forgetKeys(engineState, keys, queueId);
}

async function forgetAllDeleted(engineState: EngineState, keys: Queue, goesOn: () => boolean): Promise<void> {
  for await (const queueId of deletedWithKeys(engineState, keys, goesOn)) await forgetKeys(engineState, keys, queueId);
}

/** Damaged keys, which reads report, are left where they are. */
async function untilDamage(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Refusal || !isExpected(error)) throw error;
  }
}
