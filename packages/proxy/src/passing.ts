import { status } from '@grpc/grpc-js';
import { Refusal, RelayedRefusal } from '@taskmaster/node/grpc';
import type { Reason } from '@taskmaster/proto';

export function isRefusedBy(thrown: unknown, reason: Reason): boolean {
  return thrown instanceof Refusal && thrown.reason === reason;
}

/** Whether the same call may do better a little later, at the same node or at another one. */
export function isPassing(refusal: Refusal): boolean {
  if (refusal.reason === 'STORE_FAILED') return false;
  const code = refusal instanceof RelayedRefusal ? refusal.error.code : refusal.code;
  return refusal.reason === 'NOT_HOLDER' || code === status.UNAVAILABLE;
}
