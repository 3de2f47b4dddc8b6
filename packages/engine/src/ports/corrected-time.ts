/** How far a clock is corrected in each ms, in ms, unless an operator chooses otherwise. */
const DEFAULT_CORRECTION = 1 / 1000;

/** How often the system clock is read, in ms. */
const LOOK_MS = 1_000;

/** While the time is corrected, its mark on disk is not older than this, in ms. */
const MARKED_WITHIN_MS = 90_000;

export interface TimeSources {
  /** The system clock, in ms since 1970. Jumps when it is set. */
  wall(): number;
  /** Time since a fixed moment, in ms. Never jumps. */
  monotonic(): number;
}

/**
 * Time that passes like monotonic time, and approaches the system clock slowly.
 *
 *  T1  While it runs, it never goes back and never jumps: in each ms it passes by `1 - rate` to `1 + rate` ms.
 *  T2  If the system clock is not set any more, it agrees with it after `difference / rate`, and does not overshoot.
 */
export class CorrectedTime {
  readonly #sources: TimeSources;
  readonly #rate: number;
  /** Monotonic time at the last look at the system clock. */
  #lookedAt: number;
  /** This time at the last look. */
  #then: number;
  /** How far the system clock was ahead of this time at the last look. */
  #missing: number;

  /** `rate`: at least 0 and less than 1. */
  constructor(sources: TimeSources, rate: number = DEFAULT_CORRECTION) {
    this.#sources = sources;
    this.#rate = rate;
    this.#lookedAt = sources.monotonic();
    this.#then = sources.wall();
    this.#missing = 0;
  }

  /** In ms since 1970, with fractions. */
  now(): number {
    const monotonic = this.#sources.monotonic();
    const passed = monotonic - this.#lookedAt;
    const most = passed * this.#rate;
    const now = this.#then + passed + Math.max(-most, Math.min(most, this.#missing));
    if (passed >= LOOK_MS) {
      this.#lookedAt = monotonic;
      this.#then = now;
      this.#missing = this.#sources.wall() - now;
    }
    return now;
  }

  /**
   * Goes on from a mark of an earlier run, when `passedMs` have passed since. If the system clock is ahead, the run may have
   * caught up since its mark, and so does this time. It goes back only if the system clock was ahead after the mark and was set
   * back before the run ended without another mark: by less than the run had caught up.
   */
  resume(marked: number, passedMs: number): void {
    const now = marked + passedMs;
    const mostCaughtUp = this.#rate * Math.min(passedMs, MARKED_WITHIN_MS);
    this.set(Math.max(now, Math.min(now + mostCaughtUp, this.#sources.wall())));
  }

  /** Goes on from another instant. */
  set(now: number): void {
    this.#lookedAt = this.#sources.monotonic();
    this.#then = now;
    this.#missing = this.#sources.wall() - now;
  }

  /** The shortest monotonic time until an instant, in ms: as much as it takes if this time catches up until then. */
  until(instant: number): number {
    const left = instant - this.now();
    if (left <= 0 || this.#missing <= 0) return left;
    return Math.max(left - this.#missing, left / (1 + this.#rate));
  }
}
