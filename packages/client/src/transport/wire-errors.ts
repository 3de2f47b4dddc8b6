import { type ServiceError, status } from '@grpc/grpc-js';
import {
  ItemKind,
  type ItemRefusal,
  isReason,
  isTransient,
  leavesOpen,
  type Error as WireError,
  wireErrorOf,
} from '@taskmaster/proto';
import { isTaskMasterError, makeError, NOT_HOLDER, type RefusedItem, TaskMasterError } from '../values/errors.ts';

/** Statuses of gRPC's own that say nothing of what became of the request. */
const openCodes: ReadonlySet<number> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.INTERNAL,
  status.UNKNOWN,
]);

/** The error that a refusal in a batch, a stream or an in-process reply stands for. */
export function errorFromWire(error: WireError): TaskMasterError {
  return makeError(error.message, {
    reason: error.reason === '' ? statusName(error.code) : error.reason,
    code: error.code,
    metadata: error.metadata,
    retryDelayMs: error.retryDelayMs > 0 ? error.retryDelayMs : undefined,
    retryable: isRetryable(error),
    maybeApplied: leavesOpen(error),
    items: error.items.map(refusedItem),
  });
}

/** The error that the status of a gRPC call stands for. */
export function errorFromService(error: ServiceError): TaskMasterError {
  const refusal = wireErrorOf(error);
  if (refusal !== undefined) return errorFromWire(refusal);
  // Without ErrorInfo it was gRPC that failed, not the node that refused.
  const lost = error.code === status.UNAVAILABLE;
  // gRPC adds a note on names even where there is nothing to note.
  const details = error.details.replace(/\.? Resolution note: *$/, '');
  return makeError(details === '' ? error.message : details, {
    reason: statusName(error.code),
    code: error.code,
    // gRPC's own RESOURCE_EXHAUSTED means a message too large, which no repetition makes smaller.
    retryable: lost,
    maybeApplied: openCodes.has(error.code),
    cause: error,
  });
}

/** A reply that breaks the protocol. */
export function brokenReply(message: string): TaskMasterError {
  return new TaskMasterError(`the node ${message}`, { reason: 'INTERNAL', maybeApplied: true });
}

/** Whatever was thrown, as an error of this library. */
export function asTaskMasterError(thrown: unknown): TaskMasterError {
  if (isTaskMasterError(thrown)) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new TaskMasterError(message, { reason: 'INTERNAL', maybeApplied: true, cause: thrown });
}

const kindNames: Readonly<Record<number, RefusedItem['kind']>> = {
  [ItemKind.ITEM_KIND_ENQUEUE]: 'enqueue',
  [ItemKind.ITEM_KIND_DEQUEUE]: 'dequeue',
  [ItemKind.ITEM_KIND_RENEW]: 'renew',
  [ItemKind.ITEM_KIND_RELEASE]: 'release',
};

function refusedItem(item: ItemRefusal): RefusedItem {
  return { ...item, kind: kindNames[item.kind] ?? 'unknown' };
}

function statusName(code: number): string {
  return status[code] ?? 'UNKNOWN';
}

/** What one node does not hold another one does, and the client goes there. */
function isRetryable({ reason, code }: WireError): boolean {
  if (reason === NOT_HOLDER) return true;
  return isReason(reason) ? isTransient(reason) : isTransientCode(code);
}

function isTransientCode(code: number): boolean {
  return code === status.UNAVAILABLE || code === status.RESOURCE_EXHAUSTED;
}
