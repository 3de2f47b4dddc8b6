/**
 * Limits concurrent work, first come, first served. Finished work makes room in the next turn of the event loop. Otherwise all
 * work that never waits would run in one turn and delay other callers.
 */
export class Turnstile {
  readonly #waiting: (() => void)[] = [];
  #room: number;

  /** `width`: maximum of concurrent work. */
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

  /** Gives the place to the next one in the line, if there is one. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#room++;
    else next();
  }
}
