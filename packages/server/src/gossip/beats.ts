/**
 * Notices that another thread stands still. Only time in which this thread itself ran counts: after a pause of the
 * whole process, both go on and neither suspects the other.
 */
export class BeatWatch {
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

  /** To be called every `everyMs`. Returns for how long the other has stood still, in ms. */
  look(now: number): number {
    const beat = this.#read();
    const passed = Math.min(now - this.#lookedAt, 2 * this.#everyMs);
    this.#lookedAt = now;
    this.#stillMs = beat === this.#last ? this.#stillMs + passed : 0;
    this.#last = beat;
    return this.#stillMs;
  }
}
