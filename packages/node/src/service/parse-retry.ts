import type { RetryPolicy } from '@taskmaster/engine/domain';
import { EnqueueMode, limits, type RetryPolicy as RetryPolicyMessage } from '@taskmaster/proto';
import { duration, type Place, refuse, wholeNumber } from '@taskmaster/server/requests';

/** The numbers of a retry policy. `at`: the place of a field. */
export function retryLimits(
  policy: RetryPolicyMessage,
  at: (field: string) => Place,
): Omit<RetryPolicy, 'deadLetterQueue'> {
  const maxAttempts = wholeNumber(policy.maxAttempts, at('max_attempts'), 0, limits.maxAttempts);
  const backoffInitialMs = duration(policy.backoffInitialMs, at('backoff_initial_ms'), 0, limits.delayMs);
  const givenMaxMs = duration(policy.backoffMaxMs, at('backoff_max_ms'), 0, limits.delayMs);
  const backoffMaxMs = givenMaxMs === 0 ? limits.defaultBackoffMaxMs : givenMaxMs;
  if (backoffInitialMs > backoffMaxMs) {
    refuse(
      'INVALID_ARGUMENT',
      at('backoff_initial_ms'),
      `is ${backoffInitialMs}: at most backoff_max_ms, ${backoffMaxMs}`,
      {
        value: backoffInitialMs,
        max: backoffMaxMs,
      },
    );
  }
  return { maxAttempts, backoffInitialMs, backoffMaxMs };
}

const MODES: ReadonlySet<number> = new Set(Object.values(EnqueueMode).filter((mode) => mode >= 0));

/** Checks a mode, which a client of a later release may not share. */
export function enqueueMode(mode: EnqueueMode, place: Place): EnqueueMode {
  if (MODES.has(mode)) return mode;
  return refuse('INVALID_ARGUMENT', place, `is ${mode}: no such mode`, { value: mode });
}
