/**
 * Limits concurrent work, first come first served. Finished work makes room only in the next turn of the event loop:
 * otherwise work that never waits would all run in one turn, and block other callers.
 */
export class Turnstile {
  readonly #waiting: (() => void)[] = [];
  #room: number;

  /** `width`: how many at once. */
  constructor(width: number) {
    this.#room = width;
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#room > 0) this.#room--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      setImmediate(() => this.#leave());
    }
  }

  /** The place goes to the next in line, if there is one. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#room++;
    else next();
  }
}
