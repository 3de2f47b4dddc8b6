import type { DurationCounts } from '@taskmaster/engine/domain';
import { Histogram } from 'prom-client';

interface Value {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * A histogram in seconds whose counts are kept elsewhere, because `observe` of the library costs too much for each task. `read`
 * returns undefined while the counts are unknown.
 */
export class CountedHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #read: () => DurationCounts | undefined;

  constructor(name: string, help: string, read: () => DurationCounts | undefined) {
    super({ name, help, registers: [] });
    this.#name = name;
    this.#help = help;
    this.#read = read;
  }

  override async get(): ReturnType<Histogram['get']> {
    const metric = { name: this.#name, help: this.#help, type: 'histogram', aggregator: 'sum', values: this.#values() };
    // The library declares its types as an enum that it does not export.
    return metric as unknown as Awaited<ReturnType<Histogram['get']>>;
  }

  /** The library prefers this to `get` for its text. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }

  #values(): Value[] {
    const counted = this.#read();
    if (counted === undefined) return [];
    const { bounds, counts, sumMs } = counted;
    let total = 0;
    const bucket = `${this.#name}_bucket`;
    const values: Value[] = bounds.map((bound, index) => {
      total += counts[index] ?? 0;
      return { metricName: bucket, labels: { le: bound / 1000 }, value: total };
    });
    total += counts[bounds.length] ?? 0;
    return [
      ...values,
      { metricName: bucket, labels: { le: '+Inf' }, value: total },
      { metricName: `${this.#name}_sum`, labels: {}, value: sumMs / 1000 },
      { metricName: `${this.#name}_count`, labels: {}, value: total },
    ];
  }
}
