import type { Clock } from '../../ports/clock.ts';
import { sleep } from '../../ports/sleep.ts';

/** Bounds bytes per second, over all who share it. A part goes as a whole, and is paid for by those who come after. */
export class Throttle {
  readonly #clock: Clock;
  readonly #bytesPerSecond: number;
  #freeAt: number;

  /** 0 bytes per second: no bound. */
  constructor(clock: Clock, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerSecond = bytesPerSecond;
    this.#freeAt = clock.now();
  }

  /** Resolves when it is the turn of so many bytes. */
  async take(bytes: number, signal?: AbortSignal): Promise<void> {
    if (this.#bytesPerSecond === 0) return;
    const now = this.#clock.now();
    const waitMs = this.#freeAt - now;
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes * 1000) / this.#bytesPerSecond;
    if (waitMs >= 1) await sleep(this.#clock, Math.ceil(waitMs), signal);
  }
}
