import { ownText } from './bytes-text.ts';

/** The keys of one memo have at most this many characters together, but one key may have more. */
const MOST_CHARACTERS = 4 * 1024 * 1024;

/**
 * Results that are expensive to find again, by key: at most `most` of them. All are forgotten when there are more, or when their
 * keys get too long: an order of use would make each lookup dearer. Use it as
 * `memo.get(key) ?? memo.remember(key, find(key))`. Callers may choose the keys: a memo keeps nothing of the requests in which
 * they came.
 */
export class Memo<K extends string, V extends NonNullable<unknown> | null> {
  readonly #most: number;
  readonly #known = new Map<string, V>();
  /** Of all keys that were remembered since the memo was empty. */
  #characters = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Undefined: not remembered. */
  get(key: K): V | undefined {
    return this.#known.get(key);
  }

  remember(key: K, value: V): V {
    if (this.#known.size >= this.#most || this.#characters + key.length > MOST_CHARACTERS) this.clear();
    this.#characters += key.length;
    this.#known.set(ownText(key), value);
    return value;
  }

  clear(): void {
    this.#known.clear();
    this.#characters = 0;
  }
}
