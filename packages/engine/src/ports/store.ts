import type { Key } from '../domain/ids.ts';
import type { WriteBatch } from './write-batch.ts';

/** Separate key spaces of one store. The numbers are part of the format on disk. */
export const Family = {
  /** Payloads: task key → data, written once. */
  data: 0,
  /** Available tasks: task key → task state. */
  ready: 1,
  /** Hidden tasks: task key → task state. */
  hidden: 2,
  /** Index of hidden tasks by due time: due key → empty. */
  due: 3,
  /** Queues: queue key → id, counters and bounds. */
  queues: 4,
  /** The commit log: partition and ticket → ApplyAtom. */
  log: 5,
  /** Outcomes by request id. */
  requests: 6,
  /** Rows about the node itself and its partitions. */
  meta: 7,
} as const;
export type Family = (typeof Family)[keyof typeof Family];

/** Names of the families, by number; the names of RocksDB's column families. */
export const familyNames = Object.keys(Family) as readonly (keyof typeof Family)[];

/** Keys from `gte` on, up to but not including `lt`. */
export interface KeyRange {
  readonly gte: Key;
  readonly lt: Key;
}

/** A scan ends at the first bound that it reaches. It returns at least one row if there is one. */
export interface ScanLimit {
  readonly rows: number;
  /** Sum of key and value bytes. */
  readonly bytes: number;
  /** True if the rows will hardly be read again. The store then does not cache them. */
  readonly once?: boolean;
}

export interface Row {
  readonly key: Key;
  readonly value: Uint8Array;
}

/** Size of a store in bytes, for metrics. */
export interface StoreSize {
  /** All files below the data directory. */
  readonly disk: number;
  readonly memory: number;
  /** Undefined while it is not known. */
  readonly space?: DiskSpace | undefined;
}

/** The space on the disk of a store, in bytes. */
export interface DiskSpace {
  readonly freeBytes: number;
  /** The store is full with less free space. */
  readonly fullBelowBytes: number;
}

/** Whether a store accepts writes. */
export type StoreState =
  | { readonly kind: 'writable' }
  /** Little disk space is left: write only what frees space or keeps leases alive. The store recovers by itself. */
  | { readonly kind: 'full'; readonly freeBytes: number }
  /** A write or its fsync failed and must not be retried. The store stays in this state until it is opened again. */
  | { readonly kind: 'failed'; readonly cause: Error };

/**
 * An ordered key-value store (the paper, 3.1) with durable writes and ordered scans. All calls are asynchronous: a slow disk
 * never blocks the caller's event loop.
 */
export interface Store extends AsyncDisposable {
  /** True if a batch survives a crash entirely or not at all. If false, any part of an unfinished batch may survive. */
  readonly atomicBatches: boolean;

  /** Whether the store accepts writes now. */
  readonly state: StoreState;

  /**
   * Applies a batch. Batches take effect in the order of the calls. With `sync`, it resolves after an fsync: the batch and all
   * earlier ones survive power loss. The caller must not use the batch after the call.
   *
   * Rejects with `StoreFullError`, `StoreFailedError` or, if several processes may reach the store, `StoreLostError`. A store
   * with atomic batches has then applied no part of the batch, nor of any later batch that was written before the end of the
   * turn in which the rejection is delivered.
   */
  write(batch: WriteBatch, options: { readonly sync: boolean }): Promise<void>;

  /**
   * Reads values by key; undefined for a missing one. Sees every write that was resolved before the call. Values of a get or a
   * scan may be views into shared memory: copy a value to keep it for long.
   */
  get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]>;

  /** Reads rows in key order, as of one instant after the call. Sees every write that was resolved before the call. */
  scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]>;

  /**
   * Deletes a range; on a disk in constant time. It takes effect in the order of the calls, like a batch, and becomes durable
   * with the next synced write.
   */
  deleteRange(family: Family, range: KeyRange): Promise<void>;

  /** Called whenever `state` changes. */
  onStateChange(listener: (state: StoreState) => void): void;

  size(): StoreSize;

  /** Finishes the writes in progress, then closes. Later calls reject. */
  close(): Promise<void>;
}

/** The disk has no space for the batch. With atomic batches, no part of it was applied. */
export class StoreFullError extends Error {
  override readonly name = 'StoreFullError';
}

/** A write or its fsync failed. It is not known what is on disk until the store is opened again. */
export class StoreFailedError extends Error {
  override readonly name = 'StoreFailedError';
}

/** Rows on disk are damaged. The message names the file, if it is known, and what to do. */
export class StoreCorruptError extends Error {
  override readonly name = 'StoreCorruptError';
}

/** A restore into the store has not finished. */
export class StoreUnfinishedError extends Error {
  override readonly name = 'StoreUnfinishedError';
}

/** The store has data, and a restore needs an empty one. */
export class StoreUsedError extends Error {
  override readonly name = 'StoreUsedError';
}

/** Another process, or another store of this process, has the directory open. */
export class StoreLockedError extends Error {
  override readonly name = 'StoreLockedError';
}

/** A newer release has written the directory, in a format that this release cannot use. The message says which release can. */
export class StoreNewerError extends Error {
  override readonly name = 'StoreNewerError';
}

/**
 * This process may use the store no more, not even to read: another one has taken it over (`fenced`), or the store has lost
 * writes that it had acknowledged (`reverted`). What memory knows of it is not to be answered from.
 */
export class StoreLostError extends Error {
  override readonly name = 'StoreLostError';
  readonly kind: 'fenced' | 'reverted';

  constructor(kind: 'fenced' | 'reverted', message: string) {
    super(message);
    this.kind = kind;
  }
}

/** A call to a store after its `close`. */
export class StoreClosedError extends Error {
  override readonly name = 'StoreClosedError';
}
