/** Runs asynchronous work, at most `max` pieces at the same time. After the first failure it starts no more. */
export class InFlight {
  readonly #max: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /** Starts the work when there is room. @throws the first failure of any work. */
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

  /** Waits for all running work. @throws the first failure. */
  async drain(): Promise<void> {
    await this.settled();
    this.#throwFailure();
  }

  /** Waits for all running work. Failures do not reject it. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
