import type { ServiceError } from '@grpc/grpc-js';
import { ErrorInfo, RetryInfo } from './gen/google/rpc/error_details.ts';
import { Status } from './gen/google/rpc/status.ts';
import { type ItemRefusal, UpdateRefused, type Error as WireError } from './gen/taskmaster/v1/tasks.ts';
import { ERROR_DOMAIN } from './reasons.ts';

const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';
const RETRY_INFO = 'type.googleapis.com/google.rpc.RetryInfo';
const UPDATE_REFUSED = 'type.googleapis.com/taskmaster.v1.UpdateRefused';

/** The refusal of a node, from the status of a call. Undefined if gRPC itself failed. */
export function wireErrorOf(error: Pick<ServiceError, 'code' | 'details' | 'metadata'>): WireError | undefined {
  const details = detailsOf(error);
  return details && { ...details, code: error.code, message: error.details };
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
