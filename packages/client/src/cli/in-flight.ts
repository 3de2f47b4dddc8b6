/** Runs asynchronous work, so many at a time; stops taking more after the first failure. */
export class InFlight {
  readonly #max: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /** Begins the work when there is room. @throws the first failure, whichever work it was of. */
  async add(work: () => Promise<void>): Promise<void> {
    while (this.#running.size >= this.#max) await Promise.race(this.#running);
    this.#throwFailure();
    const running: Promise<void> = work()
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits for what was begun. @throws the first failure. */
  async drain(): Promise<void> {
    await this.settled();
    this.#throwFailure();
  }

  /** Waits for what was begun, and leaves failures to whoever asks. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
