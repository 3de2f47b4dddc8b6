import type { QueueName } from '@taskmaster/proto';
import {
  AVAILABLE,
  DEAD_LETTER_SUFFIX,
  type Instant,
  type RetryPolicy,
  type TaskState,
  type Visibility,
} from '@taskmaster/server/domain';
import type { Random } from '@taskmaster/server/ports';

/** What becomes of a task whose attempt failed. */
export type AfterAttempt = { readonly kind: 'dead' } | { readonly kind: 'retry'; readonly state: TaskState };

/** Where a task goes after its last attempt; of a task that is not known, where it most likely does. */
export function deadLetterQueueOf(queue: QueueName, state: TaskState | undefined): QueueName {
  return { group: queue.group, name: state?.retry?.deadLetterQueue || `${queue.name}${DEAD_LETTER_SUFFIX}` };
}

export function isLastAttempt(state: TaskState): boolean {
  const max = state.retry?.maxAttempts ?? 0;
  return max > 0 && state.attempts >= max;
}

/**
 * An attempt ended at `endedAt` without success: dead-letter, or try again once the backoff, counted from then, is over.
 * `delayMs` stands in for the backoff where the worker gave one.
 */
export function afterFailedAttempt(
  state: TaskState,
  endedAt: Instant,
  now: Instant,
  random: Random,
  delayMs: number | undefined,
): AfterAttempt {
  if (isLastAttempt(state)) return { kind: 'dead' };
  const wait = delayMs ?? backoffMs(state.retry, state.attempts, random);
  return { kind: 'retry', state: afterWait(state, endedAt, wait, now) };
}

/** Full jitter: anywhere up to the doubled-every-time bound, so that what failed together does not come back together. */
export function backoffMs(retry: RetryPolicy | undefined, attempts: number, random: Random): number {
  if (!retry || retry.backoffInitialMs === 0) return 0;
  const bound = Math.min(retry.backoffMaxMs, retry.backoffInitialMs * 2 ** Math.max(0, attempts - 1));
  return Math.ceil(random.next() * bound);
}

/** Given back at `from`, to be had so long after it, and due from then on; without a wait it has been due all along. */
export function afterWait(state: TaskState, from: Instant, waitMs: number, now: Instant): TaskState {
  if (waitMs === 0) return { ...state, visibility: AVAILABLE };
  const dueAt = (from + waitMs) as Instant;
  return { ...state, dueAt, visibility: hiddenUntil(dueAt, now) };
}

/** Hidden without a holder; available where the instant has come. */
export const hiddenUntil = (until: Instant, now: Instant): Visibility =>
  until > now ? { kind: 'hidden', until, lease: undefined } : AVAILABLE;
