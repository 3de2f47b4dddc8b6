import { MAX_TIMER_MS, type Timing } from '../transport/timing.ts';

/** Time that a test advances. */
export class ManualTiming implements Timing {
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>();
  #now: number;

  constructor(now = 1_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + Math.min(Math.max(0, delayMs), MAX_TIMER_MS), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Number of waiting timers. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Advances the time. Timers fire in order, and the work of one timer ends before the next one fires. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await this.settled();
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await this.settled();
    }
    this.#now = end;
    await this.settled();
  }

  /** Resolves when all work has ended that needs no time. */
  settled(): Promise<void> {
    return settled();
  }

  /** Advances the time of a blocked thread: no timer fires meanwhile. */
  block(ms: number): void {
    this.#now += ms;
  }
}

/** Runs all pending microtasks and immediates. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
