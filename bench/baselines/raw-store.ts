import type { Key } from '@taskmaster/engine/domain';
import { Family, WriteBatch } from '@taskmaster/engine/ports';
import { payload } from '../load/payload.ts';

/*
 * The upper limit of the disk: RocksDB through the node's own store port. It writes the rows that the node writes for the same
 * operations, without queues. The operations that arrive during the sync of a group form the next group: one batch, one fsync.
 */

type StoreModule = typeof import('../../packages/node/dist/store/rocks-store.js');

/** The reserve file of the store. As small as in the benched nodes, because it is written at the start. */
const RESERVE_BYTES = 1024 * 1024;
const STATE_BYTES = 24;
const LOG_BYTES = 80;
const PID_BYTES = 16;
/** Partition and queue id. */
const PREFIX = '\0\x01\0\0\0\0\0\x01';

/** Number of groups that are written concurrently. The node's commit log writes one at a time (C1). */
const GROUPS_IN_FLIGHT = 2;

export interface RawStore {
  /** Writes a payload, a state and a log entry for each task. */
  enqueue(tasks: number): Promise<number>;
  /** Writes a log entry for the lease of the first tasks, then deletes them, in two groups. Resolves with their number. */
  leaseAndComplete(tasks: number): Promise<number>;
}

const opened = new Map<string, Promise<RawStore>>();

/** The store in a directory. It is opened by the first call and stays open until the process ends. */
export function openRawStore(dir: string): Promise<RawStore> {
  let store = opened.get(dir);
  if (store === undefined) {
    store = open(dir);
    opened.set(dir, store);
  }
  return store;
}

async function open(dir: string): Promise<RawStore> {
  // The node does not export its store, because users open nodes. Only this file imports internal modules.
  const { openRocksStore } = (await import(inNode('store/rocks-store.js'))) as StoreModule;
  const store = await openRocksStore({ dir, release: '0.0.0', reserveBytes: RESERVE_BYTES });
  const group = new GroupCommit(
    () => new WriteBatch(),
    (batch) => store.write(batch, { sync: true }),
  );
  const entry = new Uint8Array(LOG_BYTES);
  let logged = 0;
  let head = 0;
  let tail = 0;
  const log = (batch: WriteBatch): void => batch.put(Family.log, key((logged++).toString(16)), entry);
  return {
    async enqueue(tasks) {
      const first = tail;
      tail += tasks;
      await group.write((batch) => {
        log(batch);
        for (let i = first; i < first + tasks; i++) {
          batch.put(Family.data, taskKey(i), payload());
          batch.put(Family.ready, taskKey(i), new Uint8Array(STATE_BYTES));
        }
      });
      return tasks;
    },
    async leaseAndComplete(tasks) {
      const first = head;
      const last = Math.min(head + tasks, tail);
      if (first === last) return 0;
      head = last;
      // The node writes no rows of leases that end before the next checkpoint.
      await group.write(log);
      await group.write((batch) => {
        log(batch);
        for (let i = first; i < last; i++) {
          batch.delete(Family.ready, taskKey(i));
          batch.delete(Family.data, taskKey(i));
        }
      });
      return last - first;
    },
  };
}

/** Joins all writes that arrive during earlier groups into one batch with one fsync. */
class GroupCommit {
  readonly #create: () => WriteBatch;
  readonly #commit: (batch: WriteBatch) => Promise<void>;
  #gathering: { readonly batch: WriteBatch; readonly written: PromiseWithResolvers<void> } | undefined;
  #inFlight = 0;

  constructor(create: () => WriteBatch, commit: (batch: WriteBatch) => Promise<void>) {
    this.#create = create;
    this.#commit = commit;
  }

  write(fill: (batch: WriteBatch) => void): Promise<void> {
    if (this.#gathering === undefined) {
      this.#gathering = { batch: this.#create(), written: Promise.withResolvers() };
      queueMicrotask(() => this.#flush());
    }
    const { batch, written } = this.#gathering;
    fill(batch);
    return written.promise;
  }

  #flush(): void {
    const group = this.#gathering;
    if (group === undefined || this.#inFlight >= GROUPS_IN_FLIGHT) return;
    this.#gathering = undefined;
    this.#inFlight++;
    this.#commit(group.batch)
      .finally(() => this.#inFlight--)
      .then(group.written.resolve, group.written.reject)
      .finally(() => this.#flush());
  }
}

const pidOf = (task: number): string => task.toString(16).padStart(PID_BYTES, '0');
const taskKey = (task: number): Key => key(pidOf(task));
const key = (rest: string): Key => (PREFIX + rest) as Key;

const inNode = (file: string): string => new URL(file, import.meta.resolve('@taskmaster/node')).href;
