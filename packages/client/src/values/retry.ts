import { status } from '@grpc/grpc-js';
import type { Reason } from '@taskmaster/proto';
import { type Duration, durationMs } from './duration.ts';
import { isOfGroup, NOT_HOLDER, type TaskMasterError } from './errors.ts';
import { assertKnown, type OptionNames } from './known-options.ts';

/** When the client repeats a failed call. */
export interface RetryOptions {
  /** Attempts of one call, the first one included. Default 10. 1: no repetition. The deadline of the call ends them too. */
  readonly maxAttempts?: number | undefined;
  /**
   * Wait before the next attempt: up to `initial` (default 50 ms) after the first failed attempt, doubling up to `max`
   * (default 2 s), with full jitter.
   */
  readonly backoff?: { readonly initial?: Duration | undefined; readonly max?: Duration | undefined } | undefined;
}

/** Retry options with defaults. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly backoffInitialMs: number;
  readonly backoffMaxMs: number;
}

const retryNames: OptionNames<RetryOptions> = { maxAttempts: true, backoff: true };
export const backoffNames: OptionNames<NonNullable<RetryOptions['backoff']>> = { initial: true, max: true };

/**
 * The policy that the options give. With the default deadline of 10 s the default policy outlasts the few seconds in which a
 * node restarts.
 * @throws TypeError
 */
export function retryPolicy(options: RetryOptions = {}): RetryPolicy {
  assertKnown('retry', options, retryNames);
  const { maxAttempts = 10, backoff = {} } = options;
  assertKnown('retry.backoff', backoff, backoffNames);
  assertAttempts('retry.maxAttempts', maxAttempts);
  return {
    maxAttempts,
    backoffInitialMs: durationMs(backoff.initial ?? 50, 'retry.backoff.initial'),
    backoffMaxMs: durationMs(backoff.max ?? '2s', 'retry.backoff.max'),
  };
}

/** @throws TypeError unless it is a number of attempts. */
export function assertAttempts(name: string, attempts: number): void {
  if (Number.isInteger(attempts) && attempts >= 1) return;
  throw new TypeError(`${name}: ${attempts} is not a whole number from 1`);
}

/**
 * How safe it is to repeat a call.
 * - `read`: always safe.
 * - `harmless`: leases. Tasks of a lost reply are available again when their leases expire.
 * - `once`: updates with a request id. The node applies them once within the window of request ids.
 * - `unsafe`: all other calls. Repeated only if the failed attempt changed nothing.
 * - `operator`: as `unsafe`, but not repeated while a member does not answer, so that the operator learns of it at once.
 */
export type Repetition = 'read' | 'harmless' | 'once' | 'unsafe' | 'operator';

/**
 * How long after its first attempt an update with a request id may be repeated, in ms. Nodes remember ids for 2 minutes by
 * default; the rest is for the transmission.
 */
export const REQUEST_ID_REPEAT_MS = 100_000;

/** Attempts that go at once to the holder that a node names. After more of them the group probably moves. */
const FOLLOWED = 2;
const HOLDER_UNREACHABLE = 'HOLDER_UNREACHABLE' satisfies Reason;

export interface FailedAttempt {
  readonly error: TaskMasterError;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  readonly repetition: Repetition;
  /** Time since the first attempt, in ms. */
  readonly elapsedMs: number;
  /** Time until the deadline of the call, in ms. */
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
  // The transport knows the holder from now on, so the next attempt goes there without a delay.
  const isTold = error.reason === NOT_HOLDER && error.metadata.holder !== undefined;
  if (isTold && attempt <= FOLLOWED && failed.remainingMs > 0) return { kind: 'retry', afterMs: 0 };
  if (attempt >= policy.maxAttempts) return giveUp;
  const bound = backoffBound(attempt, policy.backoffInitialMs, policy.backoffMaxMs);
  // The delay that a starting or stopping node asks for does not apply to other nodes.
  const leftAlone = failed.elsewhere && error.code === status.UNAVAILABLE && !isOfGroup(error);
  // The delay of the node is the least delay. Jitter is added, so that clients do not return at the same time.
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

/** Longest backoff after the given number of failures. Full jitter picks a uniform value below it. */
export function backoffBound(failures: number, initialMs: number, maxMs: number): number {
  return Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 52));
}
