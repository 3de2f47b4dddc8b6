import type { LeaseRate } from '@taskmaster/proto';
import type { Instant } from '../../domain/ids.ts';

const ALWAYS = Number.NEGATIVE_INFINITY;

/**
 * Tokens, of which each lease takes one: full at first, then `tasks` more in each `perMs`, up to `burst`. Its state is one
 * instant, at which it would have been empty if it had filled ever since. Counts parts of tokens: a token has `perMs` of them, so
 * a ms adds a whole number of parts, and nothing is rounded.
 */
export class TokenBucket {
  readonly #rate: LeaseRate;
  #emptyAt = ALWAYS;
  /** Parts that it had at this instant: less than come in a ms. */
  #rest = 0;

  constructor(rate: LeaseRate) {
    this.#rate = rate;
  }

  /** Whole tokens. */
  count(now: Instant): number {
    return Math.floor(this.#partsAt(now) / this.#rate.perMs);
  }

  take(tokens: number, now: Instant): void {
    const parts = this.#partsAt(now) - tokens * this.#rate.perMs;
    const filledMs = Math.floor(parts / this.#rate.tasks);
    this.#emptyAt = now - filledMs;
    this.#rest = parts - filledMs * this.#rate.tasks;
  }

  /** When it would have been empty, to the ms, once so many tokens are taken: see `restore`. */
  emptyAfter(tokens: number, now: Instant): Instant {
    const parts = this.#partsAt(now) - tokens * this.#rate.perMs;
    return Math.max(0, now - Math.floor(parts / this.#rate.tasks)) as Instant;
  }

  /**
   * Begins as an earlier bucket whose last tokens left it with this instant, up to a ms less full. An instant that is still to
   * come, by a clock that is behind, means an empty bucket.
   */
  restore(emptyAt: Instant, now: Instant): void {
    this.#emptyAt = Math.min(emptyAt, now);
  }

  /** When it gets its first token. Undefined: it has one. */
  next(now: Instant): Instant | undefined {
    return this.#partsIn(this.#rate.perMs, now);
  }

  /** When it is full. Undefined: it is. */
  fullAt(now: Instant): Instant | undefined {
    return this.#partsIn(this.#rate.burst * this.#rate.perMs, now);
  }

  /** Goes on as the bucket of an earlier rate, as if it had filled at this one since it was empty. */
  replace(earlier: TokenBucket): void {
    this.#emptyAt = earlier.#emptyAt;
  }

  /** When it has so many parts. Undefined: it has them. */
  #partsIn(parts: number, now: Instant): Instant | undefined {
    const missing = parts - this.#partsAt(now);
    return missing <= 0 ? undefined : ((now + Math.ceil(missing / this.#rate.tasks)) as Instant);
  }

  #partsAt(now: Instant): number {
    const { tasks, perMs, burst } = this.#rate;
    return Math.min(burst * perMs, (now - this.#emptyAt) * tasks + this.#rest);
  }
}
