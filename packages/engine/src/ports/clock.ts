import type { Instant } from '../domain/ids.ts';

/** An instant together with the uptime of the machine. A later run on the same machine computes the time since then from it. */
export interface ClockMark {
  readonly instant: Instant;
  /** Id of the boot of the machine. Undefined if the machine does not have one. */
  readonly bootId: string | undefined;
  /** Time since the boot, in ms. */
  readonly uptimeMs: number;
}

/** Cancels a timer. Has no effect after it fired. */
export type CancelTimer = () => void;

/** The clock of the engine. */
export interface Clock {
  /**
   * The current instant, in whole ms. Never goes back, and does not jump when the system clock is set: it approaches the system
   * clock by a thousandth of the time that passes, unless an operator chooses otherwise.
   */
  now(): Instant;
  /**
   * The system clock, in whole ms since 1970. Unlike `now` it continues while the machine is suspended, and jumps when it is set.
   * Use it to notice a gap, not to measure a duration.
   */
  wall(): number;
  /** Calls back once, at the instant or soon after. */
  at(instant: Instant, callback: () => void): CancelTimer;
  /** A mark for the `resume` of the next run. */
  mark(): ClockMark;
  /**
   * Continues from the mark of an earlier run. Call it once, before the first use of `now()`. Within the same boot the time since
   * the mark is known, up to what the clock was corrected by since. Across boots the system clock tells it, unless it went back.
   */
  resume(mark: ClockMark): void;
}
