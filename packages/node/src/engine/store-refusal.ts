import { Refusal, UnreadableBytesError } from '@taskmaster/server/domain';
import { StoreClosedError, StoreCorruptError, StoreFailedError, StoreFullError } from '../ports/store.ts';

/** What a caller is told of a store that failed. Throws what no store fails with. */
export function refusalOf(cause: unknown): Refusal {
  const refusal = storeRefusal(cause);
  if (refusal === undefined) throw cause;
  return refusal;
}

/** The same; undefined for what no store fails with. */
function storeRefusal(cause: unknown): Refusal | undefined {
  if (cause instanceof Refusal) return cause;
  if (cause instanceof StoreFullError) {
    return new Refusal('DISK_FULL', 'the disk is full; nothing was changed', { retryDelayMs: 1000, cause });
  }
  if (cause instanceof StoreCorruptError || cause instanceof UnreadableBytesError) {
    return new Refusal('CORRUPT_DATA', 'rows on disk are damaged; see the log of the node', { cause });
  }
  return cause instanceof StoreFailedError || cause instanceof StoreClosedError ? failedWrite(cause) : undefined;
}

/** What those are told whose write failed: unless there was no space, what of it is on disk is not known. */
export function writeRefusal(cause: Error): Refusal {
  if (cause instanceof Refusal) return cause;
  return cause instanceof StoreFullError ? refusalOf(cause) : failedWrite(cause);
}

const failedWrite = (cause: Error): Refusal =>
  new Refusal('STORE_FAILED', 'a write to the store failed; this node takes no more writes', { cause });
