import { status } from '@grpc/grpc-js';
import type { Reason } from '@taskmaster/proto';
import { isOfGroup, NOT_HOLDER, type TaskMasterError } from './errors.ts';

/** When a failed call is repeated. */
export interface RetryOptions {
  /** Attempts of one call, the first included. Default 10; 1: never repeat. The call's deadline ends them too. */
  readonly maxAttempts?: number | undefined;
  /** Bound of the wait after the first failed attempt, in ms; doubles with every further one. Default 50. */
  readonly initialBackoffMs?: number | undefined;
  /** Largest bound of a wait, in ms. Default 2,000. */
  readonly maxBackoffMs?: number | undefined;
}

export type RetryPolicy = Required<{ [Key in keyof RetryOptions]: NonNullable<RetryOptions[Key]> }>;

/** With the deadline of 10 s these outlast the few seconds that a node needs to restart. */
export const defaultRetryPolicy: RetryPolicy = { maxAttempts: 10, initialBackoffMs: 50, maxBackoffMs: 2_000 };

/**
 * What repeating a call can do.
 * - `read`: nothing, ever.
 * - `harmless`: leases: what a lost reply leased comes back when that lease expires.
 * - `once`: updates with a request id. The node applies them once, as long as it remembers the id.
 * - `unsafe`: anything else. Repeated only when the failed attempt is known to have changed nothing.
 * - `operator`: as `unsafe`, but a member that does not answer is for the operator to know, at once.
 */
export type Repetition = 'read' | 'harmless' | 'once' | 'unsafe' | 'operator';

/**
 * How long after its first attempt an update with a request id is repeated at most, in ms. Nodes remember ids for 2
 * minutes by default; the rest is for the repetition's own way.
 */
const REQUEST_ID_REPEAT_MS = 100_000;

/** So many nodes in a row are believed when they say who holds a group. More means that it moves: that takes a moment. */
const FOLLOWED = 2;
const HOLDER_UNREACHABLE = 'HOLDER_UNREACHABLE' satisfies Reason;

export interface FailedAttempt {
  readonly error: TaskMasterError;
  /** From 1. */
  readonly attempt: number;
  readonly repetition: Repetition;
  /** Since the first attempt, in ms. */
  readonly elapsedMs: number;
  /** Until the call's deadline, in ms. */
  readonly remainingMs: number;
  /** Whether the next attempt goes to another node than the failed one. */
  readonly elsewhere: boolean;
}

export type RetryDecision = { readonly kind: 'give-up' } | { readonly kind: 'retry'; readonly afterMs: number };

const giveUp: RetryDecision = { kind: 'give-up' };

/** Whether and when a call is repeated. `random` is uniform in [0, 1). */
export function decideRetry(failed: FailedAttempt, policy: RetryPolicy, random: () => number): RetryDecision {
  const { error, attempt } = failed;
  if (!error.retryable || !mayRepeat(failed)) return giveUp;
  // Going where a node says is part of the attempt; how that node is reached is the transport's business.
  const isTold = error.reason === NOT_HOLDER && error.metadata.holder !== undefined;
  if (isTold && attempt <= FOLLOWED && failed.remainingMs > 0) return { kind: 'retry', afterMs: 0 };
  if (attempt >= policy.maxAttempts) return giveUp;
  const bound = backoffBound(attempt, policy.initialBackoffMs, policy.maxBackoffMs);
  // What a node that is starting or stopping asks for does not concern the others.
  const leftAlone = failed.elsewhere && error.code === status.UNAVAILABLE && !isOfGroup(error);
  // The node's wish is a lower bound; the jitter on top keeps clients from coming back all at once.
  const afterMs = (leftAlone ? 0 : (error.retryDelayMs ?? 0)) + random() * bound;
  return afterMs < failed.remainingMs ? { kind: 'retry', afterMs } : giveUp;
}

function mayRepeat({ error, repetition, elapsedMs }: FailedAttempt): boolean {
  switch (repetition) {
    case 'read':
    case 'harmless':
      return true;
    case 'once':
      return !error.maybeApplied || elapsedMs < REQUEST_ID_REPEAT_MS;
    case 'unsafe':
      return !error.maybeApplied;
    case 'operator':
      return !error.maybeApplied && error.reason !== HOLDER_UNREACHABLE;
    default:
      return repetition satisfies never;
  }
}

/** Bound of the wait after the `failures`-th failure: exponential. Full jitter picks uniformly below it. */
export function backoffBound(failures: number, initialMs: number, maxMs: number): number {
  return Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 52));
}
