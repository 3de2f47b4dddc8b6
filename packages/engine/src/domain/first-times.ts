/** Damages that are logged at most. */
const MOST = 100;

/** Tells which damages are found for the first time. Many reads find the same one, and a log should have each once. */
export class FirstTimes {
  readonly #found = new Set<string>();

  /** True once for each damage, until there are too many of them. */
  isFirst(damage: string): boolean {
    if (this.#found.has(damage) || this.#found.size >= MOST) return false;
    this.#found.add(damage);
    return true;
  }
}
