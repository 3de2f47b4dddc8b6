import type { Instant } from '@taskmaster/server/domain';
import type { Clock } from '@taskmaster/server/ports';

/** Bounds bytes per second, over all who share it: what was sent is paid for by waiting, in the order of the calls. */
export class Throttle {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #bytesPerSecond: number;
  #freeAt = 0;

  /** 0 bytes per second: no bound. */
  constructor(clock: Pick<Clock, 'now'>, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Counts so many bytes. Returns when they, and all that were counted before, are paid for. */
  pay(bytes: number): Instant {
    const now = this.#clock.now();
    if (this.#bytesPerSecond === 0) return now;
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes * 1000) / this.#bytesPerSecond;
    return Math.floor(this.#freeAt) as Instant;
  }
}
