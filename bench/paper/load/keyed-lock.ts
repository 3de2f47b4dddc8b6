/** Locks by name, first come, first served (the paper, 5.5). A lock exists while it is held or waited for. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key);
    const { promise: mine, resolve: release } = Promise.withResolvers<void>();
    this.#tails.set(key, mine);
    await before;
    try {
      return await work();
    } finally {
      if (this.#tails.get(key) === mine) this.#tails.delete(key);
      release();
    }
  }
}
