/**
 * Results that are expensive to find again, by key: at most `most` of them. All are forgotten when there are more: an order of
 * use would make each lookup dearer. Use it as `memo.get(key) ?? memo.remember(key, find(key))`.
 */
export class Memo<K, V extends NonNullable<unknown> | null> {
  readonly #most: number;
  readonly #known = new Map<K, V>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Undefined: not remembered. */
  get(key: K): V | undefined {
    return this.#known.get(key);
  }

  remember(key: K, value: V): V {
    if (this.#known.size >= this.#most) this.#known.clear();
    this.#known.set(key, value);
    return value;
  }

  clear(): void {
    this.#known.clear();
  }
}
