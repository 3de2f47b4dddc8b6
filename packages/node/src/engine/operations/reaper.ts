import type { Key, PartitionId, QueueId } from '@taskmaster/server/domain';
import { afterPrefix, metaKeys, prefixOfReapKey } from '../../domain/keys.ts';
import { scanAll } from '../../log/scan-all.ts';
import { Family, type Store } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';

const FAMILIES = [Family.data, Family.ready, Family.hidden, Family.due];

/**
 * Deletes the rows of dead generations (the paper, 5.2), by range: as quick for a million tasks as for one. What is to be
 * reaped is a row, so a crash in between costs nothing but time.
 */
export class Reaper {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Reaps what earlier runs left. */
  async reapAll(): Promise<void> {
    const range = { gte: 'reap/' as Key, lt: afterPrefix('reap/') };
    for await (const { key } of scanAll(this.#store, Family.meta, range)) await this.#reap(key);
  }

  /** Reaps one generation whose end the store shows. */
  reap(partition: PartitionId, queueId: QueueId): Promise<void> {
    return this.#reap(metaKeys.reap(partition, queueId));
  }

  async #reap(key: Key): Promise<void> {
    const prefix = prefixOfReapKey(key);
    const range = { gte: prefix as Key, lt: afterPrefix(prefix) };
    for (const family of FAMILIES) await this.#store.deleteRange(family, range);
    const done = new WriteBatch();
    done.delete(Family.meta, key);
    // Synced, because it must not survive without the range deletions before it.
    await this.#store.write(done, { sync: true });
  }
}
