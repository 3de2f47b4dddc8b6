import { median, percentile } from '../measurement.ts';

/** Figures of one task in one run. A figure that the system does not report is missing. */
export type TaskCost = Readonly<Record<string, number>>;

/** Costs on both builds at about the same time. */
export interface Pair {
  readonly before: TaskCost;
  readonly now: TaskCost;
}

/** A figure of two builds that ran in turn. */
export interface PairFigure {
  readonly figure: string;
  /** Medians of the runs. */
  readonly before: number;
  readonly now: number;
  /** Ratios of the pairs: their median, and the quarters of them that are lowest and highest begin here. */
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

/** Compares the runs of each pair. Figures that cost next to nothing have no ratio that means anything, and are left out. */
export function comparePairs(pairs: readonly Pair[]): PairFigure[] {
  const names = new Set(pairs.flatMap(({ before, now }) => [...Object.keys(before), ...Object.keys(now)]));
  return [...names].flatMap((figure) => {
    const both = pairs
      .map(({ before, now }) => ({ was: before[figure] ?? 0, is: now[figure] ?? 0 }))
      .filter(({ was }) => was > 0);
    if (both.length < pairs.length) return [];
    const ratios = both.map(({ was, is }) => is / was);
    return [
      {
        figure,
        before: median(both.map(({ was }) => was)),
        now: median(both.map(({ is }) => is)),
        ratio: median(ratios),
        low: percentile(ratios, 25),
        high: percentile(ratios, 75),
      },
    ];
  });
}

/**
 * Whether a figure has become dearer than `bound` allows, beyond what the machine's noise explains: not only in the median, but
 * also in all pairs but the lowest quarter.
 */
export const isDearer = ({ ratio, low }: PairFigure, bound: number): boolean => ratio > bound && low > bound;
