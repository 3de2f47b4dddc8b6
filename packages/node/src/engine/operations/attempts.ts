import { limits, type QueueName } from '@taskmaster/proto';
import {
  AVAILABLE,
  DEAD_LETTER_SUFFIX,
  type Failure,
  type Instant,
  type RetryPolicy,
  type TaskError,
  type TaskState,
  type Visibility,
} from '@taskmaster/server/domain';
import type { Random } from '@taskmaster/server/ports';

/** A task whose attempt failed: it goes to the dead-letter queue, or stays for a retry. */
export interface AfterAttempt {
  readonly kind: 'dead' | 'retry';
  readonly state: TaskState;
}

/** How an attempt failed. */
export interface FailedAttempt {
  readonly endedAt: Instant;
  /** From the worker. It replaces the backoff. */
  readonly delayMs: number | undefined;
  /** Undefined: the worker says nothing, or the lease expired. */
  readonly error: TaskError | undefined;
  readonly isExpired: boolean;
  /** True: the attempt was the last one, whatever the policy says. */
  readonly deadLetter: boolean;
}

/** The dead-letter queue of a task. Without the task's state: the default one. */
export function deadLetterQueueOf(queue: QueueName, state: TaskState | undefined): QueueName {
  return { group: queue.group, name: state?.retry?.deadLetterQueue || `${queue.name}${DEAD_LETTER_SUFFIX}` };
}

export function isLastAttempt(state: TaskState): boolean {
  const max = state.retry?.maxAttempts ?? 0;
  return max > 0 && state.attempts >= max;
}

/** Decides what follows a failed attempt: the dead-letter queue, or a retry after the backoff, counted from its end. */
export function afterFailedAttempt(
  before: TaskState,
  attempt: FailedAttempt,
  now: Instant,
  random: Random,
): AfterAttempt {
  const state = withFailure(before, attempt);
  if (attempt.deadLetter || isLastAttempt(state)) return { kind: 'dead', state };
  const wait = attempt.delayMs ?? backoffMs(state.retry, state.attempts, random);
  return { kind: 'retry', state: afterWait(state, attempt.endedAt, wait, now) };
}

/** Adds the failure to the history of the task. A release without an error leaves no trace. */
function withFailure(state: TaskState, { endedAt, error, isExpired }: FailedAttempt): TaskState {
  if (error === undefined && !isExpired) return state;
  const { visibility, attempts, history } = state;
  const worker = visibility.kind === 'hidden' ? (visibility.lease?.worker ?? '') : '';
  const earlier = history?.failures.slice(1 - limits.keptFailures).map(withoutDetails) ?? [];
  const failures = [...earlier, { at: endedAt, attempt: attempts, worker, error }];
  return { ...state, history: { failures, origin: history?.origin } };
}

const withoutDetails = (failure: Failure): Failure =>
  failure.error === undefined || failure.error.details === ''
    ? failure
    : { ...failure, error: { message: failure.error.message, details: '' } };

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
