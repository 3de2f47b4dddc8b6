import type { Instant } from '../../domain/ids.ts';
import type { Clock } from '../../ports/clock.ts';

/** Limits bytes per second over all senders that share it: each waits after it has sent, in the order of the calls. */
export class Throttle {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #bytesPerSecond: number;
  #freeAt = 0;

  /** 0 bytes per second: no limit. */
  constructor(clock: Pick<Clock, 'now'>, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Counts sent bytes. Returns the time at which these and all earlier bytes fit into the limit. */
  pay(bytes: number): Instant {
    const now = this.#clock.now();
    if (this.#bytesPerSecond === 0) return now;
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes * 1000) / this.#bytesPerSecond;
    return Math.floor(this.#freeAt) as Instant;
  }
}
