import { median, percentile } from '../measurement.ts';

/** A figure with its variation. The paper's points have error bars from the 20th to the 80th percentile. */
export interface Spread {
  readonly median: number;
  readonly p20: number;
  readonly p80: number;
}

/** The rates in the intervals of one run. */
export interface RateSpread extends Spread {
  readonly mean: number;
  /** Standard deviation over the intervals, in percent of the mean. */
  readonly variationPercent: number;
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), p20: percentile(values, 20), p80: percentile(values, 80) };
}

export function rateSpreadOf(perInterval: readonly number[], mean: number): RateSpread {
  const average = perInterval.reduce((sum, value) => sum + value, 0) / perInterval.length;
  const variance = perInterval.reduce((sum, value) => sum + (value - average) ** 2, 0) / perInterval.length;
  return { ...spreadOf(perInterval), mean, variationPercent: (100 * Math.sqrt(variance)) / average };
}
