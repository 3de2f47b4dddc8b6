import type { Timing } from '../transport/timing.ts';

/** Time between two polls that are observed, in ms. */
const TURN_MS = 100;

/**
 * Tells since when an answer may wait unread. The lease of a waiting request begins between its request and its answer, and a
 * blocked event loop may read the answer late. An answer that a poll of all sockets did not read had not arrived by then. So the
 * lease cannot have begun before the last poll that ended before the answer was read, apart from the time on the network.
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

  /** End of a recent poll: all data that had arrived by then is read. While it is watched, it is at most about 100 ms old. */
  get polledAt(): number {
    return this.#polledAt;
  }

  /** Watches the event loop until the returned function is called. */
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
      // After a blocked loop timers run before the sockets are polled, so the time of the timer would be too late.
      this.#afterPoll(() => {
        this.#polledAt = this.#timing.now();
        this.#next();
      });
    });
  }
}
