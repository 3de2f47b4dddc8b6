import type { Key, PartitionId } from '../domain/ids.ts';
import { afterPrefix, metaKeys, partitionOfReapKey, prefixOfReapKey } from '../domain/keys.ts';
import type { EngineLog } from '../engine-deps.ts';
import type { Holdings } from '../holdings.ts';
import type { CommitLog } from '../log/commit-log.ts';
import { scanAll } from '../log/scan-all.ts';
import type { SharedHolders } from '../ports/shared-holders.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import type { Queue } from '../queues/queue.ts';

const FAMILIES = [Family.data, Family.ready, Family.hidden, Family.due];

interface ReaperDeps {
  readonly store: Store;
  readonly log: Pick<EngineLog, 'warn'>;
  readonly holdings: Pick<Holdings, 'holds'>;
  /** Defined if other nodes have rows in the store, too. */
  readonly shared: SharedHolders | undefined;
}

/**
 * Deletes the rows of deleted generations (the paper, 5.2) by range: a million tasks take as long as one. A durable row names
 * each generation to delete, so the work continues after a crash.
 */
export class Reaper {
  readonly #store: Store;
  readonly #log: Pick<EngineLog, 'warn'>;
  readonly #isOurs: (id: PartitionId) => boolean;
  #hasLeftovers = false;

  constructor({ store, log, holdings, shared }: ReaperDeps) {
    this.#store = store;
    this.#log = log;
    this.#isOurs = (id) => shared === undefined || holdings.holds(id);
  }

  /** True if rows of deleted generations may be left. */
  get hasLeftovers(): boolean {
    return this.#hasLeftovers;
  }

  /** Call this after the store was replayed: the log may contain the end of a queue whose rows are not deleted yet. */
  noteLeftovers(): void {
    this.#hasLeftovers = true;
  }

  /** Deletes all generations that are left. In a shared store, those of the partitions that this node holds. Never rejects. */
  async reapAll(): Promise<void> {
    this.#hasLeftovers = false;
    try {
      const range = { gte: 'reap/' as Key, lt: afterPrefix('reap/') };
      for await (const { key } of scanAll(this.#store, Family.meta, range)) {
        if (this.#isOurs(partitionOfReapKey(key))) await this.#reap(key);
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Deletes one generation in the background, after the atom that ended it. */
  reap(log: Pick<CommitLog, 'appendRows'>, { partition, ledger }: Queue): void {
    // After the store shows the end of the queue, no more rows are written into its range.
    log
      .appendRows(() => {})
      .then(() => this.#reap(metaKeys.reap(partition, ledger.queueId)))
      .catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    this.#log.warn({ err: error }, 'the rows of a deleted queue could not be deleted; trying again later');
    this.#hasLeftovers = true;
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
