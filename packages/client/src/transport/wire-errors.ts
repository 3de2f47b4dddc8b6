import { type ServiceError, status } from '@grpc/grpc-js';
import {
  connectionProblem,
  ItemKind,
  type ItemRefusal,
  isReason,
  isTransient,
  isUnknownProblem,
  leavesOpen,
  type Error as WireError,
  wireErrorOf,
} from '@taskmaster/proto';
import { isTaskMasterError, makeError, NOT_HOLDER, type RefusedItem, TaskMasterError } from '../values/errors.ts';
import { messageOf } from '../values/thrown.ts';
import { httpProxyOf } from './channels/http-proxy.ts';

/** Statuses of gRPC that do not say whether the request was applied. */
const openCodes: ReadonlySet<number> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.INTERNAL,
  status.UNKNOWN,
  // A node says with a reason that a request is too long. Without one, the answer was too long for the client.
  status.RESOURCE_EXHAUSTED,
]);

/** The error of a refusal in a batch, in a stream, or of an engine in this process. */
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

/** Problems of TLS have names that only OpenSSL knows, and gRPC does not know the problems of a proxy. */
function explained(given: string): string {
  const details = connectionProblem(given);
  const proxy = isUnknownProblem(given) ? httpProxyOf() : undefined;
  if (proxy !== undefined) {
    return `the proxy ${proxy.host} of ${proxy.variable} did not connect to it; connect with httpProxy: false or --no-http-proxy to go without it, or name the host in no_proxy`;
  }
  if (/wrong version number|packet length too long/.test(details)) {
    return `the endpoint does not speak TLS: connect without it (${details})`;
  }
  if (/certificate required|bad certificate|alert number 116/.test(details)) {
    return `the endpoint asks for a client certificate that its authority has signed (${details})`;
  }
  return details;
}

/** The error of a failed gRPC call. */
export function errorFromService(error: ServiceError): TaskMasterError {
  const refusal = wireErrorOf(error);
  if (refusal !== undefined) return errorFromWire(refusal);
  // Without ErrorInfo gRPC failed and the node did not refuse.
  const lost = error.code === status.UNAVAILABLE;
  const details = explained(error.details);
  return makeError(details === '' ? error.message : details, {
    reason: statusName(error.code),
    code: error.code,
    // RESOURCE_EXHAUSTED of gRPC means that a message is too large, so a repetition would fail too.
    retryable: lost,
    maybeApplied: openCodes.has(error.code),
    cause: error,
  });
}

/**
 * The error of a failed gRPC call of its own. A server that ends without waiting for its calls cancels them. For the caller the
 * server is unavailable then.
 */
export function errorOfCall(failure: ServiceError): TaskMasterError {
  const error = errorFromService(failure);
  if (failure.code !== status.CANCELLED || wireErrorOf(failure) !== undefined) return error;
  const message = `the server cancelled the call: ${error.message}`;
  return makeError(message, { reason: 'UNAVAILABLE', retryable: true, maybeApplied: true, cause: failure });
}

/** The error of a reply that breaks the protocol. */
export function brokenReply(message: string, cause?: unknown): TaskMasterError {
  return new TaskMasterError(`the node ${message}`, { reason: 'INTERNAL', maybeApplied: true, cause });
}

/** The error of a request that cannot be encoded, such as one with a fraction as a number. */
export function unencodable(cause: unknown): TaskMasterError {
  return makeError(`the request cannot be encoded: ${messageOf(cause)}`, { reason: 'INVALID_ARGUMENT', cause });
}

/** A thrown value as an error of this library. */
export function asTaskMasterError(thrown: unknown): TaskMasterError {
  if (isTaskMasterError(thrown)) return thrown;
  return new TaskMasterError(messageOf(thrown), { reason: 'INTERNAL', maybeApplied: true, cause: thrown });
}

const kindNames: Readonly<Record<number, RefusedItem['kind']>> = {
  [ItemKind.ITEM_KIND_ENQUEUE]: 'enqueue',
  [ItemKind.ITEM_KIND_DEQUEUE]: 'dequeue',
  [ItemKind.ITEM_KIND_RENEW]: 'renew',
  [ItemKind.ITEM_KIND_RELEASE]: 'release',
};

function refusedItem(item: ItemRefusal): RefusedItem {
  return { ...item, kind: kindNames[item.kind] ?? 'unknown', key: item.key === '' ? undefined : item.key };
}

function statusName(code: number): string {
  return status[code] ?? 'UNKNOWN';
}

/** NOT_HOLDER is retryable, because the client then asks the holder. */
function isRetryable({ reason, code }: WireError): boolean {
  if (reason === NOT_HOLDER) return true;
  return isReason(reason) ? isTransient(reason) : isTransientCode(code);
}

function isTransientCode(code: number): boolean {
  return code === status.UNAVAILABLE || code === status.RESOURCE_EXHAUSTED;
}
