import { build, decodeFromCompressedBase64, encodeIntoCompressedBase64, type Histogram } from 'hdr-histogram-js';

/** Percentiles are exact to 1 %. */
const DIGITS = 2;
const US_PER_MS = 1_000;

/** Percentiles of a report, in ms. */
export interface Percentiles {
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

/** Latencies of any number in little memory. Those of several intervals and processes can be added. */
export class Latencies {
  readonly #histogram: Histogram;

  private constructor(histogram: Histogram) {
    this.#histogram = histogram;
  }

  static empty(): Latencies {
    return new Latencies(build({ numberOfSignificantValueDigits: DIGITS }));
  }

  /** @param text in the usual format of HdrHistogram (V2, compressed, base64). */
  static decode(text: string): Latencies {
    // A decoded histogram does not grow, so that larger latencies could not be added.
    const latencies = Latencies.empty();
    latencies.#histogram.add(decodeFromCompressedBase64(text));
    return latencies;
  }

  get count(): number {
    return this.#histogram.totalCount;
  }

  record(ms: number): void {
    this.#histogram.recordValue(Math.max(1, Math.round(ms * US_PER_MS)));
  }

  add(other: Latencies): void {
    this.#histogram.add(other.#histogram);
  }

  /** The latency that this part of the calls (in percent) did not exceed, in ms. 0 without calls. */
  at(percentile: number): number {
    if (this.count === 0) return 0;
    return this.#histogram.getValueAtPercentile(percentile) / US_PER_MS;
  }

  get percentiles(): Percentiles {
    const mean = this.count === 0 ? 0 : this.#histogram.mean / US_PER_MS;
    return {
      meanMs: Math.round(mean * US_PER_MS) / US_PER_MS,
      p50Ms: this.at(50),
      p90Ms: this.at(90),
      p99Ms: this.at(99),
      p999Ms: this.at(99.9),
      maxMs: this.at(100),
    };
  }

  encode(): string {
    return encodeIntoCompressedBase64(this.#histogram);
  }
}
