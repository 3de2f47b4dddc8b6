import { status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import type { Reason } from '@taskmaster/proto';
import { RelayedRefusal } from '@taskmaster/server/calls';
import type { SendFailure } from '../../upstream/sender.ts';
import { RefusedError } from '../../upstream/upstream.ts';

/** Retry delay of HOLDER_UNREACHABLE, in ms. About as long as a restart takes. */
const UNREACHABLE_RETRY_MS = 500;
/** Retry delay of OUTCOME_UNKNOWN, in ms. */
const UNKNOWN_RETRY_MS = 100;

/** Refusal of a call that was not sent, or that changes nothing. */
export function unreachable(whom: string, problem: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('HOLDER_UNREACHABLE', `${whom} cannot be reached: ${problem}`, {
    metadata,
    retryDelayMs: UNREACHABLE_RETRY_MS,
  });
}

/** Refusal of a call that may have taken effect. */
export function outcomeUnknown(problem: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('OUTCOME_UNKNOWN', `the request was sent, but its answer was lost: ${problem}`, {
    metadata,
    retryDelayMs: UNKNOWN_RETRY_MS,
  });
}

export function cancelled(): Refusal {
  return new Refusal('CANCELLED', 'the call was cancelled');
}

/** Refusal of a stream that ended before it was complete. */
export function interrupted(failure: SendFailure, partition: number): Refusal {
  if (failure instanceof RefusedError || failure.kind === 'cancelled') return refusalFor(failure);
  return new Refusal('BACKUP_BROKEN', `the backup of partition ${partition} has ended: ${failure.message}`, {
    metadata: { partition: String(partition) },
    retryDelayMs: UNREACHABLE_RETRY_MS,
    cause: failure,
  });
}

/** The refusal for a failure that no other route can avoid. */
export function refusalFor(failure: SendFailure): Refusal {
  if (failure instanceof RefusedError) return new RelayedRefusal(failure.error);
  switch (failure.kind) {
    case 'cancelled':
      return cancelled();
    case 'deadline':
      return new Refusal('DEADLINE_EXCEEDED', failure.message);
    case 'broken':
      return new Refusal('INTERNAL', failure.message, { cause: failure });
    case 'connection':
      return failure.maybeApplied ? outcomeUnknown(failure.message, {}) : unreachable('the node', failure.message, {});
  }
}

export function isRefusedBy(thrown: unknown, reason: Reason): boolean {
  return thrown instanceof Refusal && thrown.reason === reason;
}

/** Whether the same call may succeed a little later, at this node or another one. */
export function isWorthRepeating(refusal: Refusal): boolean {
  if (refusal.reason === 'STORE_FAILED') return false;
  return refusal.reason === 'NOT_HOLDER' || codeOf(refusal) === status.UNAVAILABLE;
}

/** Whether the refusal does not depend on the node: the request is invalid, or the caller cancelled it. */
export function isAboutRequest(refusal: Refusal): boolean {
  const code = codeOf(refusal);
  return code === status.INVALID_ARGUMENT || code === status.CANCELLED;
}

/** The gRPC status of a refusal. A reason that this program does not know has the status that came with it. */
const codeOf = (refusal: Refusal): number => (refusal instanceof RelayedRefusal ? refusal.error.code : refusal.code);
