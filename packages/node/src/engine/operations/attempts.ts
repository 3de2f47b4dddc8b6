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

/** The dead-letter queue of a task. Without the task's state: the default one. */
export function deadLetterQueueOf(queue: QueueName, state: TaskState | undefined): QueueName {
  return { group: queue.group, name: state?.retry?.deadLetterQueue || `${queue.name}${DEAD_LETTER_SUFFIX}` };
}

export function isLastAttempt(state: TaskState): boolean {
  const max = state.retry?.maxAttempts ?? 0;
  return max > 0 && state.attempts >= max;
}

/**
 * Decides what follows an attempt that failed at `endedAt`: the dead-letter queue, or a retry after the backoff, counted from
 * `endedAt`. A `delayMs` from the worker replaces the backoff.
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

/**
 * Backoff with full jitter: a random time up to a bound that doubles with every attempt. Tasks that fail together are not
 * retried together.
 */
export function backoffMs(retry: RetryPolicy | undefined, attempts: number, random: Random): number {
  if (!retry || retry.backoffInitialMs === 0) return 0;
  const bound = Math.min(retry.backoffMaxMs, retry.backoffInitialMs * 2 ** Math.max(0, attempts - 1));
  return Math.ceil(random.next() * bound);
}

/** The task released at `from` and due `waitMs` later. With `waitMs` 0 it is available and its `dueAt` is unchanged. */
export function afterWait(state: TaskState, from: Instant, waitMs: number, now: Instant): TaskState {
  if (waitMs === 0) return { ...state, visibility: AVAILABLE };
  const dueAt = (from + waitMs) as Instant;
  return { ...state, dueAt, visibility: hiddenUntil(dueAt, now) };
}

/** Hidden without a lease until the instant; available if the instant is past. */
export const hiddenUntil = (until: Instant, now: Instant): Visibility =>
  until > now ? { kind: 'hidden', until, lease: undefined } : AVAILABLE;
