/** Counts operations in progress. */
export class Tally {
  #count = 0;
  readonly #idle: (() => void)[] = [];

  get count(): number {
    return this.#count;
  }

  enter(): void {
    this.#count++;
  }

  leave(): void {
    this.#count--;
    if (this.#count === 0 && this.#idle.length > 0) for (const wake of this.#idle.splice(0)) wake();
  }

  /** Resolves when no operation is in progress. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}
