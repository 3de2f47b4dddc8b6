import { Refusal } from '@taskmaster/server/domain';
import { RelayedRefusal } from '@taskmaster/server/service';
import type { SendFailure } from '../upstream/sender.ts';
import { RefusedError } from '../upstream/upstream.ts';

/** How soon callers of a node that cannot be reached are asked to come back, in ms: about what a restart takes. */
const UNREACHABLE_RETRY_MS = 500;
const UNKNOWN_RETRY_MS = 100;

/** Nothing was sent, or what was sent only looked. */
export function unreachable(whom: string, problem: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('HOLDER_UNREACHABLE', `${whom} cannot be reached: ${problem}`, {
    metadata,
    retryDelayMs: UNREACHABLE_RETRY_MS,
  });
}

export function outcomeUnknown(problem: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('OUTCOME_UNKNOWN', `the request was sent, but its answer was lost: ${problem}`, {
    metadata,
    retryDelayMs: UNKNOWN_RETRY_MS,
  });
}

export function cancelled(): Refusal {
  return new Refusal('CANCELLED', 'the call was given up');
}

/** What a caller hears of a failure that is not a matter of routes. */
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
