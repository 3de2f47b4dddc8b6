import { status } from '@grpc/grpc-js';
import type { Reason } from '@taskmaster/proto';
import { Refusal } from '@taskmaster/server/domain';
import { RelayedRefusal } from '@taskmaster/server/service';

export function isRefusedBy(thrown: unknown, reason: Reason): boolean {
  return thrown instanceof Refusal && thrown.reason === reason;
}

/** Whether the same call may do better a little later, at the same node or at another one. */
export function isPassing(refusal: Refusal): boolean {
  if (refusal.reason === 'STORE_FAILED') return false;
  return refusal.reason === 'NOT_HOLDER' || codeOf(refusal) === status.UNAVAILABLE;
}

/** Whether it is about the request, not about the node: every node would say so, or nobody waits any more. */
export function isAboutRequest(refusal: Refusal): boolean {
  const code = codeOf(refusal);
  return code === status.INVALID_ARGUMENT || code === status.CANCELLED;
}

/** The gRPC status; of a reason that is newer than this program, the one that came with it. */
const codeOf = (refusal: Refusal): number => (refusal instanceof RelayedRefusal ? refusal.error.code : refusal.code);
