import type { Timing } from '../transport/timing.ts';

const TURN_MS = 100;

/**
 * Tells since when an answer can have been lying unread. A lease that waits begins somewhere between its request and its
 * answer; and the answer may be read late, when something blocked the event loop. What has not been read in a poll of
 * all sockets had not arrived by then, so a lease cannot have begun (but for its way over the network) before the last
 * poll that ended before the answer was read.
 */
export class LoopWatch {
  readonly #timing: Timing;
  /** Calls back after the event loop has polled its sockets. */
  readonly #afterPoll: (callback: () => void) => void;
  #watchers = 0;
  #ticking = false;
  #polledAt = Number.NEGATIVE_INFINITY;

  constructor(timing: Timing, afterPoll: (callback: () => void) => void = setImmediate) {
    this.#timing = timing;
    this.#afterPoll = afterPoll;
  }

  /** A moment by which everything that had arrived had been read. Current to within 100 ms while somebody watches. */
  get polledAt(): number {
    return this.#polledAt;
  }

  /** Begins to watch, until the returned function is called. */
  watch(): () => void {
    this.#watchers++;
    if (!this.#ticking) this.#next();
    return () => {
      this.#watchers--;
    };
  }

  #next(): void {
    this.#ticking = this.#watchers > 0;
    if (!this.#ticking) return;
    this.#timing.after(TURN_MS, () => {
      // Timers run before the sockets are polled, so the timer's own time would be too late after a blocked loop.
      this.#afterPoll(() => {
        this.#polledAt = this.#timing.now();
        this.#next();
      });
    });
  }
}
