import { Refusal } from '../../domain/refusal.ts';
import { LONG_AGO, NEVER } from '../../domain/task.ts';
import type { DeletedQueue, EngineState } from '../../engine-state.ts';
import type { Queue } from '../../queues/queue.ts';
import { keyRecords } from '../../records/record-store.ts';
import type { Sweep } from '../../sweeper.ts';
import { isExpected } from '../expire.ts';
import { deletedWithKeys, forgetKeys } from './forget-keys.ts';

/** Removes the keys of deleted queues: of those in `deleted`, and of those that were deleted before a start or a move. */
export const sweepKeys: Sweep<DeletedQueue | Queue> = {
  everyMs: 500,
  next: ({ adoptedKeys, deleted }) => (deleted.size + adoptedKeys.size === 0 ? NEVER : LONG_AGO),
  *due({ adoptedKeys, deleted, holdings, table }) {
    for (const one of deleted) {
      const keys = table.get(keyRecords.of(one.group));
      // Without keys here, the node that holds the group now finds them itself.
      if (keys === undefined) deleted.delete(one);
      else if (holdings.canCommit(keys.partition)) yield one;
    }
    for (const keys of adoptedKeys) if (holdings.canCommit(keys.partition)) yield keys;
  },
  sweep: forgetOne,
};

async function forgetOne(
  engineState: EngineState,
  one: DeletedQueue | Queue,
  goesOn: () => boolean = () => true,
): Promise<void> {
  await untilDamage('ledger' in one ? forgetAllDeleted(engineState, one, goesOn) : forgetDeleted(engineState, one));
  if (!goesOn()) return;
  if ('ledger' in one) engineState.adoptedKeys.delete(one);
  else engineState.deleted.delete(one);
}

/** Deleted queues of a group whose children have ended, and whose parents may not have heard of it. */
function* untold({ adoptedKeys, deleted, table }: EngineState, group: string): Generator<DeletedQueue | Queue> {
  for (const one of deleted) if (one.group === group) yield one;
  if (adoptedKeys.size === 0) return;
  const keys = table.get(keyRecords.of(group));
  if (keys !== undefined && adoptedKeys.has(keys)) yield keys;
}

/**
 * Tells the parents of the tasks of deleted queues before a new task waits, which may have the PID of one of them. Undefined: all
 * have heard.
 */
export function beforeNewWaits(engineState: EngineState, group: string): (() => Promise<void>) | undefined {
  const all = [...untold(engineState, group)];
  if (all.length === 0) return undefined;
  return async () => {
    for (const one of all) await forgetOne(engineState, one);
  };
}

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
