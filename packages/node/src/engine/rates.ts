import type { Instant } from '../domain/ids.ts';

/** Time constant of the averages: about a minute. */
const TAU_MS = 60_000;

/** Events per second, exponentially averaged. Soft state. */
export class RateMeter {
  #events = 0;
  #at: number | undefined;

  count(events: number, now: Instant): void {
    this.#decay(now);
    this.#events += events;
  }

  perSecond(now: Instant): number {
    this.#decay(now);
    return this.#events / (TAU_MS / 1000);
  }

  #decay(now: Instant): void {
    if (this.#at !== undefined && now > this.#at) this.#events *= Math.exp((this.#at - now) / TAU_MS);
    this.#at = now;
  }
}

/** How much one more value moves the mean. */
const WEIGHT = 0.05;

/** What a queue's users want to see of its pace (the paper, 3.5). Soft state. */
export class QueueRates {
  readonly enqueue = new RateMeter();
  readonly lease = new RateMeter();
  readonly complete = new RateMeter();
  #meanLeaseMs: number | undefined;

  get meanLeaseMs(): number {
    return this.#meanLeaseMs ?? 0;
  }

  leaseLasted(ms: number): void {
    this.#meanLeaseMs = this.#meanLeaseMs === undefined ? ms : this.#meanLeaseMs + WEIGHT * (ms - this.#meanLeaseMs);
  }
}
