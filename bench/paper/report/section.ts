import type { Point } from '../result.ts';
import type { Spread } from '../spread.ts';
import type { Chart } from './chart.ts';

/** The section of the report about one figure of the paper. */
export interface Section {
  readonly heading: string;
  /** The paper's parameters, and ours if they differ. */
  readonly setUp: string;
  /** File name without the extension, and the chart. */
  readonly charts: readonly (readonly [name: string, chart: Chart])[];
  readonly table: Table;
  /** The paper's conclusion from its figure. */
  readonly paper: string;
  /** The conclusion from our figure, with its numbers. */
  readonly shows: string;
}

export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The meaning of points and error bars in most charts. */
export const BARS = 'Median, bars from the 20th to the 80th percentile';

/** A number with three significant digits: 0.123, 4.57, 89.1, 12,300. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 6 });
}

/** `4.2 times` */
export function times(ratio: number): string {
  return `${figure(Number(ratio.toPrecision(2)))} times`;
}

export function percent(part: number): string {
  return Number.isFinite(part) ? `${Math.round(part * 100)} %` : '–';
}

/** A median with its percentiles. */
export function spread({ median, p20, p80 }: Spread): string {
  return `${figure(median)} (${figure(p20)} to ${figure(p80)})`;
}

/** The different values of a sweep, in order. */
export function valuesOf(points: readonly Point[]): number[] {
  return [...new Set(points.map(({ x }) => x))].sort((a, b) => a - b);
}

export function seriesOf(points: readonly Point[], name: string): Point[] {
  return points.filter(({ series }) => series === name).sort((a, b) => a.x - b.x);
}

export function at(points: readonly Point[], series: string, x: number): Point | undefined {
  return points.find((point) => point.series === series && point.x === x);
}

/** Points of a chart with error bars, without zeros, which a logarithmic axis cannot show. */
export function drawn(points: readonly Point[], of: (point: Point) => Spread | undefined) {
  return points.flatMap((point) => {
    const value = of(point);
    if (value === undefined || !(value.median > 0)) return [];
    return [{ x: point.x, y: value.median, low: value.p20, high: value.p80 }];
  });
}

/** One row for each value of the sweep, one cell for each series. */
export function sweepRows(
  points: readonly Point[],
  series: readonly string[],
  cell: (point: Point) => string,
): readonly (readonly string[])[] {
  return valuesOf(points).map((x) => [
    x.toLocaleString('en', { maximumFractionDigits: 6 }),
    ...series.map((name) => {
      const point = at(points, name, x);
      return point === undefined ? '' : cell(point);
    }),
  ]);
}
