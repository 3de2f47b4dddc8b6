import type { Reason } from '@taskmaster/proto';
import { PeerUnreachableError } from '@taskmaster/server/ports';

/** Why a change that another member was to make is refused, after its answer did not come. */
export const reasonOfSilence = (error: unknown): Reason =>
  error instanceof PeerUnreachableError && error.maybeServed ? 'OUTCOME_UNKNOWN' : 'HOLDER_UNREACHABLE';
