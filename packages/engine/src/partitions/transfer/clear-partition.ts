import type { PartitionId } from '../../domain/ids.ts';
import { metaKeys, partitionRange } from '../../domain/keys.ts';
import { Family, type Store } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';

const FAMILIES = [
  Family.data,
  Family.ready,
  Family.hidden,
  Family.due,
  Family.queues,
  Family.log,
  Family.requests,
] as const;

/**
 * Deletes all rows of a partition that this node does not hold, by range. `check` is called in the turn of each deletion and
 * throws if no more may be deleted.
 */
export async function clearPartition(store: Store, id: PartitionId, check = (): void => {}): Promise<void> {
  for (const family of FAMILIES) {
    check();
    await store.deleteRange(family, partitionRange(id));
  }
  // Without atomic batches a sync that fails may keep the deletion of the mark and lose the range deletions before it.
  if (!store.atomicBatches) await store.write(new WriteBatch(), { sync: true });
  check();
  const done = new WriteBatch();
  done.delete(Family.meta, metaKeys.partition(id));
  done.delete(Family.meta, metaKeys.clear(id));
  // Synced: the deletion of this row must not survive a crash without the range deletions before it.
  await store.write(done, { sync: true });
}
