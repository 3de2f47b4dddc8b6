import { type ServiceError, status } from '@grpc/grpc-js';
import {
  ERROR_DOMAIN,
  ErrorInfo,
  ItemKind,
  type ItemRefusal,
  isReason,
  isTransient,
  type Reason,
  RetryInfo,
  Status,
  UpdateRefused,
  type Error as WireError,
} from '@taskmaster/proto';
import { isTaskMasterError, makeError, NOT_HOLDER, type RefusedItem, TaskMasterError } from './errors.ts';

const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';
const RETRY_INFO = 'type.googleapis.com/google.rpc.RetryInfo';
const UPDATE_REFUSED = 'type.googleapis.com/taskmaster.v1.UpdateRefused';

/** A proxy lost the node it had passed the request to: the one refusal that does not mean that nothing was changed. */
const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN' satisfies Reason;

/** The error that a refusal in a batch, a stream or an in-process reply stands for. */
export function errorFromWire(error: WireError): TaskMasterError {
  return makeError(error.message, {
    reason: error.reason === '' ? statusName(error.code) : error.reason,
    code: error.code,
    metadata: error.metadata,
    retryDelayMs: error.retryDelayMs > 0 ? error.retryDelayMs : undefined,
    retryable: isRetryable(error),
    maybeApplied: error.reason === OUTCOME_UNKNOWN,
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
    maybeApplied: lost || error.code === status.DEADLINE_EXCEEDED || error.code === status.CANCELLED,
    cause: error,
  });
}

/** What a node refused, read from the status of a call; undefined where gRPC failed and no node refused anything. */
export function wireErrorOf(error: Pick<ServiceError, 'code' | 'details' | 'metadata'>): WireError | undefined {
  const details = detailsOf(error);
  return details && { ...details, code: error.code, message: error.details };
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

function detailsOf(error: Pick<ServiceError, 'metadata'>): Omit<WireError, 'code' | 'message'> | undefined {
  const [encoded] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!(encoded instanceof Uint8Array)) return undefined;
  try {
    return readDetails(Status.decode(encoded));
  } catch {
    return undefined; // Not a google.rpc.Status: some middlebox's own details. The status alone must do.
  }
}

function readDetails(decoded: Status): Omit<WireError, 'code' | 'message'> | undefined {
  let info: ErrorInfo | undefined;
  let retryDelayMs = 0;
  let items: ItemRefusal[] = [];
  for (const detail of decoded.details) {
    if (detail.typeUrl === ERROR_INFO) {
      const found = ErrorInfo.decode(detail.value);
      if (found.domain === ERROR_DOMAIN) info = found;
    } else if (detail.typeUrl === RETRY_INFO) {
      const delay = RetryInfo.decode(detail.value).retryDelay;
      if (delay !== undefined) retryDelayMs = delay.seconds * 1000 + delay.nanos / 1e6;
    } else if (detail.typeUrl === UPDATE_REFUSED) {
      items = UpdateRefused.decode(detail.value).items;
    }
  }
  return info === undefined ? undefined : { reason: info.reason, metadata: info.metadata, retryDelayMs, items };
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
