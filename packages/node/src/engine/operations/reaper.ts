import type { Key, PartitionId, QueueId } from '@taskmaster/server/domain';
import { afterPrefix, metaKeys, prefixOfReapKey } from '../../domain/keys.ts';
import { scanAll } from '../../log/scan-all.ts';
import { Family, type Store } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';

const FAMILIES = [Family.data, Family.ready, Family.hidden, Family.due];

/**
 * Deletes the rows of deleted generations (the paper, 5.2) by range: a million tasks take as long as one. A durable row names
 * each generation to delete, so the work continues after a crash.
 */
export class Reaper {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Deletes the generations that earlier runs left. */
  async reapAll(): Promise<void> {
    const range = { gte: 'reap/' as Key, lt: afterPrefix('reap/') };
    for await (const { key } of scanAll(this.#store, Family.meta, range)) await this.#reap(key);
  }

  /** Deletes one generation. The atom that ended it must be in the store. */
  reap(partition: PartitionId, queueId: QueueId): Promise<void> {
    return this.#reap(metaKeys.reap(partition, queueId));
  }

  async #reap(key: Key): Promise<void> {
    const prefix = prefixOfReapKey(key);
    const range = { gte: prefix as Key, lt: afterPrefix(prefix) };
    for (const family of FAMILIES) await this.#store.deleteRange(family, range);
    const done = new WriteBatch();
    done.delete(Family.meta, key);
    // Synced: the deletion of this row must not survive a crash without the range deletions before it.
    await this.#store.write(done, { sync: true });
  }
}
