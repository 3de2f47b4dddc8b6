import { UnreadableBytesError } from './domain/bytes.ts';
import { Refusal } from './domain/refusal.ts';
import {
  StoreClosedError,
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLostError,
} from './ports/store.ts';

/** The refusal for an error of the store. Throws other errors again. */
export function refusalOf(cause: unknown): Refusal {
  const refusal = storeRefusal(cause);
  if (refusal === undefined) throw cause;
  return refusal;
}

/** The refusal for an error of the store; undefined for other errors. */
function storeRefusal(cause: unknown): Refusal | undefined {
  if (cause instanceof Refusal) return cause;
  if (cause instanceof StoreFullError) {
    return new Refusal('DISK_FULL', 'the disk is full; nothing was changed', { retryDelayMs: 1000, cause });
  }
  if (cause instanceof StoreCorruptError || cause instanceof UnreadableBytesError) {
    return new Refusal('CORRUPT_DATA', 'rows on disk are damaged; see the log of the node', { cause });
  }
  if (cause instanceof StoreLostError) return lostStore(cause);
  return cause instanceof StoreFailedError || cause instanceof StoreClosedError ? failedWrite(cause) : undefined;
}

/** The refusal for callers of a failed write. Unless the disk was full, it is not known whether the write is on disk. */
export function writeRefusal(cause: Error): Refusal {
  if (cause instanceof Refusal) return cause;
  return cause instanceof StoreFullError ? refusalOf(cause) : failedWrite(cause);
}

const failedWrite = (cause: Error): Refusal =>
  new Refusal('STORE_FAILED', 'a write to the store failed; this node takes no more writes', { cause });

/** The refusal of a node that may use its store no more. Nothing has changed. */
export const lostStore = (cause: StoreLostError): Refusal =>
  cause.kind === 'fenced'
    ? new Refusal('SHUTTING_DOWN', 'another process has taken the place of this node', { retryDelayMs: 1000, cause })
    : new Refusal('OLD_DATA', 'the database of this node has lost acknowledged work: see the log of the node', {
        cause,
      });

/** The refusal of new tasks while the disk is full. */
export const diskFull = (): Refusal =>
  new Refusal('DISK_FULL', 'the disk is full: no new tasks until there is space', { retryDelayMs: 1000 });
