/**
 * Notices that another thread stands still. Only time in which this thread runs counts. So after a pause of the whole process
 * neither thread suspects the other.
 */
export class HeartbeatWatch {
  readonly #read: () => number;
  readonly #everyMs: number;
  #last: number;
  #stillMs = 0;
  #lookedAt: number;

  constructor(read: () => number, everyMs: number, now: number) {
    this.#read = read;
    this.#everyMs = everyMs;
    this.#last = read();
    this.#lookedAt = now;
  }

  /** Call this every `everyMs`. Returns how long the other thread has stood still, in ms. */
  look(now: number): number {
    const heartbeat = this.#read();
    const passed = Math.min(now - this.#lookedAt, 2 * this.#everyMs);
    this.#lookedAt = now;
    this.#stillMs = heartbeat === this.#last ? this.#stillMs + passed : 0;
    this.#last = heartbeat;
    return this.#stillMs;
  }
}
