import type { LeaseRate } from '@taskmaster/proto';
import type { Instant } from '../../domain/ids.ts';

/**
 * Tokens, of which each lease takes one: full at first, then `tasks` more in each `perMs`, up to `burst`. Counts parts of tokens:
 * a token has `perMs` of them, so a ms adds a whole number of parts, and nothing is rounded.
 */
export class TokenBucket {
  readonly #rate: LeaseRate;
  #parts: number;
  #at: Instant;

  constructor(rate: LeaseRate, now: Instant) {
    this.#rate = rate;
    this.#parts = rate.burst * rate.perMs;
    this.#at = now;
  }

  /** Whole tokens. */
  count(now: Instant): number {
    return Math.floor(this.#partsAt(now) / this.#rate.perMs);
  }

  take(tokens: number, now: Instant): void {
    this.#parts = this.#partsAt(now) - tokens * this.#rate.perMs;
    this.#at = now;
  }

  /** When it gets its first token. Undefined: it has one. */
  next(now: Instant): Instant | undefined {
    return this.#partsIn(this.#rate.perMs, now);
  }

  /** When it is full. Undefined: it is. */
  fullAt(now: Instant): Instant | undefined {
    return this.#partsIn(this.#rate.burst * this.#rate.perMs, now);
  }

  replace(earlier: TokenBucket, now: Instant): void {
    const { perMs, burst } = this.#rate;
    const parts = Math.floor((earlier.#partsAt(now) / earlier.#rate.perMs) * perMs);
    this.#parts = Math.min(burst * perMs, parts);
    this.#at = now;
  }

  /** When it has so many parts. Undefined: it has them. */
  #partsIn(parts: number, now: Instant): Instant | undefined {
    const missing = parts - this.#partsAt(now);
    return missing <= 0 ? undefined : ((now + Math.ceil(missing / this.#rate.tasks)) as Instant);
  }

  #partsAt(now: Instant): number {
    const { tasks, perMs, burst } = this.#rate;
    return Math.min(burst * perMs, this.#parts + (now - this.#at) * tasks);
  }
}
