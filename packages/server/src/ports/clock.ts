import type { Instant } from '../domain/ids.ts';

/** A point in time that a later run on the same machine can place itself against. */
export interface ClockMark {
  readonly instant: Instant;
  /** Names the boot of the machine; undefined where the machine cannot tell. */
  readonly bootId: string | undefined;
  /** Time since that boot, in ms. */
  readonly uptimeMs: number;
}

/** Ends a timer; harmless after it fired. */
export type CancelTimer = () => void;

/** Time as the engine knows it. */
export interface Clock {
  /** In whole ms. Never goes back, and does not jump when the system's clock is set. */
  now(): Instant;
  /**
   * The system's clock, in ms since 1970: unlike `now` it goes on while the machine is suspended, and jumps when it is
   * set. For noticing that there was such a gap, not for telling how long anything took.
   */
  wall(): number;
  /** Calls back once, at the instant or soon after. */
  at(instant: Instant, callback: () => void): CancelTimer;
  /** For the next run's `resume`. */
  mark(): ClockMark;
  /**
   * Called once, before the first `now()` that counts: continues where an earlier run stopped. Within the same boot the
   * time that passed is known exactly; across boots the system's clock is believed unless it went back.
   */
  resume(mark: ClockMark): void;
}
