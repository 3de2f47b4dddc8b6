import type { Key } from '@taskmaster/server/domain';
import type { WriteBatch } from './write-batch.ts';

/** Separate key spaces of one store. The numbers are part of the format on disk. */
export const Family = {
  /** Payloads: task key → data, written once. */
  data: 0,
  /** Available tasks: task key → task state. */
  ready: 1,
  /** Hidden tasks: task key → task state. */
  hidden: 2,
  /** Hidden tasks by the instant they show: due key → nothing. */
  due: 3,
  /** Queues: queue key → id, counters and bounds. */
  queues: 4,
  /** The commit log: partition and ticket → ApplyAtom. */
  log: 5,
  /** Outcomes by request id. */
  requests: 6,
  /** What the node must remember of itself and of its partitions. */
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

/** A scan ends at whichever bound it meets first; it returns at least one row if there is one. */
export interface ScanLimit {
  readonly rows: number;
  /** Sum of key and value bytes. */
  readonly bytes: number;
  /** It will hardly be read again: what the store keeps in memory should stay. */
  readonly once?: boolean;
}

export interface Row {
  readonly key: Key;
  readonly value: Uint8Array;
}

/** What a store can tell of itself, for metrics. All in bytes. */
export interface StoreSize {
  readonly disk: number;
  readonly memory: number;
}

/** Whether a store takes writes. */
export type StoreState =
  | { readonly kind: 'writable' }
  /** Space is short: only what frees space or keeps leases alive should be written. Ends by itself. */
  | { readonly kind: 'full'; readonly freeBytes: number }
  /** A write or its fsync failed in a way that must not be retried. Never ends. */
  | { readonly kind: 'failed'; readonly cause: Error };

/**
 * An ordered key-value store (the paper, 3.1): durable writes, ordered scans. Everything is asynchronous, so that a slow
 * disk never holds up the caller's event loop.
 */
export interface Store extends AsyncDisposable {
  /** Whether a batch survives a crash entirely or not at all. Without it, any part of an unfinished batch may survive. */
  readonly atomicBatches: boolean;

  /** Whether writes are taken now. */
  readonly state: StoreState;

  /**
   * Applies a batch. Batches take effect in the order of the calls. Resolved with `sync` means fsynced: the batch and all
   * before it survive power loss. The batch belongs to the store from the call on.
   *
   * Rejects with `StoreFullError` or `StoreFailedError`; then nothing of the batch, nor of any batch given after it until
   * the turn in which the rejection is delivered is over, has been applied on a store with atomic batches.
   */
  write(batch: WriteBatch, options: { readonly sync: boolean }): Promise<void>;

  /**
   * Values by key, undefined where there is none. Sees every write that was resolved before the call. Here and in a scan
   * values may be views of memory that all of them share: whoever keeps one for long copies it.
   */
  get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]>;

  /** Rows in key order, as they were at one instant after the call. Sees every write resolved before the call. */
  scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]>;

  /** Deletes a range in constant time. Not ordered with writes, durable with the next synced one. */
  deleteRange(family: Family, range: KeyRange): Promise<void>;

  /** Called whenever `state` changes. */
  onStateChange(listener: (state: StoreState) => void): void;

  size(): StoreSize;

  /** Finishes the writes under way, then closes. Later calls reject. */
  close(): Promise<void>;
}

/** There is no space for the batch; nothing of it was applied. */
export class StoreFullError extends Error {
  override readonly name = 'StoreFullError';
}

/** A write or its fsync failed; what is on disk is unknown until the store is opened again. */
export class StoreFailedError extends Error {
  override readonly name = 'StoreFailedError';
}

/** Rows on disk are damaged. The message names the file, where it is known, and what to do. */
export class StoreCorruptError extends Error {
  override readonly name = 'StoreCorruptError';
}

/** Another process, or another store of this process, has the directory open. */
export class StoreLockedError extends Error {
  override readonly name = 'StoreLockedError';
}

/** A call on a store after its `close`. */
export class StoreClosedError extends Error {
  override readonly name = 'StoreClosedError';
}
