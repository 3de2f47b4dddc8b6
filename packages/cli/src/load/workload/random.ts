import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** Random numbers that depend only on the seed. */
export class LoadRandom {
  readonly #generator;

  constructor(seed: number) {
    this.#generator = xoroshiro128plus(seed);
  }

  /** Uniform in [0, 1). */
  fraction(): number {
    return uniformFloat64(this.#generator);
  }

  /** Uniform from `min` to `max`, both inclusive. */
  between(min: number, max: number): number {
    return min === max ? min : uniformInt(this.#generator, min, max);
  }
}

/** Picks an index with a probability in proportion to its weight. */
export class Choice {
  readonly #sums: readonly number[];
  readonly #total: number;

  /** @param weights none is negative, and one is positive. */
  constructor(weights: readonly number[]) {
    let total = 0;
    this.#sums = weights.map((weight) => (total += weight));
    this.#total = total;
  }

  pick(random: LoadRandom): number {
    const wanted = random.fraction() * this.#total;
    let [low, high] = [0, this.#sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#sums[middle] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** The weights of Zipf's law: the item of rank k has the weight 1/k^skew. With skew 0 all are equal. */
export function zipfWeights(items: number, skew: number): number[] {
  return Array.from({ length: items }, (_, index) => (index + 1) ** -skew);
}
