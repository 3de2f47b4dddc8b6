import type { Random } from '../ports/random.ts';

/**
 * Reproducible random numbers: sfc32 by Chris Doty-Humphrey, seeded and warmed up as its author recommends. For simulations,
 * not for secrets.
 */
export class SeededRandom implements Random {
  /** The seed of this run. */
  readonly seed: number;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** `seed` is a whole number. Its lower 53 bits are used. */
  constructor(seed: number) {
    if (!Number.isSafeInteger(seed)) throw new TypeError(`a seed is a whole number, not ${seed}`);
    this.seed = seed;
    this.#a = 0;
    this.#b = seed | 0;
    this.#c = Math.floor(seed / 2 ** 32) | 0;
    for (let round = 0; round < 12; round++) this.uint32();
  }

  next(): number {
    return (this.uint32() * 2 ** 21 + (this.uint32() >>> 11)) / 2 ** 53;
  }

  /** A whole number from 0 to 2^32 - 1. */
  uint32(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return sum >>> 0;
  }

  /** A whole number from 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A random item. */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from');
    return items[this.int(items.length)] as T;
  }

  bytes(length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at++) bytes[at] = this.uint32() & 0xff;
    return bytes;
  }

  /** A new array with the items in random order. */
  shuffle<T>(items: readonly T[]): T[] {
    const shuffled = items.slice();
    for (let last = shuffled.length - 1; last > 0; last--) {
      const other = this.int(last + 1);
      const item = shuffled[last] as T;
      shuffled[last] = shuffled[other] as T;
      shuffled[other] = item;
    }
    return shuffled;
  }

  /** An independent generator, so that the draws of one component do not change those of another. */
  fork(): SeededRandom {
    return new SeededRandom(this.uint32());
  }
}
