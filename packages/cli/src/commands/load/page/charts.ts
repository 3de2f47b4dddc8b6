import { CALL_KINDS, type CallKind } from '../../../load/measure/call-figures.ts';
import { Latencies } from '../../../load/measure/latencies.ts';
import type { Interval } from '../../../load/measure/timeline.ts';
import type { LoadReport } from '../../../load/report/load-report.ts';
import { timelineOf } from '../../../load/report/read-report.ts';

/** A line of a chart, with a value for each x. Null: there is none. */
interface Line {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

/** A chart of the page. Plain data: the script of the page draws it. */
export interface Chart {
  readonly title: string;
  readonly note: string;
  readonly unit: 'ms' | 'number' | 'per second';
  /** `time` in seconds since the start; `percentile` as the number of nines: 1 is 90 %, 2 is 99 %. */
  readonly xAxis: 'time' | 'percentile';
  readonly x: readonly number[];
  readonly isLogarithmic: boolean;
  /** The reader chooses one of them. */
  readonly views: readonly { readonly name: string; readonly lines: readonly Line[] }[];
}

const PERCENTILES = [50, 90, 99, 99.9, 100] as const;
const NAMES: Readonly<Record<number, string>> = { 50: 'p50', 90: 'p90', 99: 'p99', 99.9: 'p99.9', 100: 'max' };
/** Points of a distribution, in nines. */
const NINES = Array.from({ length: 41 }, (_, at) => at / 10);
/** A shorter last interval has too few calls for a point. */
const SHORTEST_PART = 0.5;

/** The charts of a report: rates, latencies, failures, tasks, and distributions. */
export function chartsOf(report: LoadReport): readonly Chart[] {
  const timeline = timelineOf(report);
  const { intervalMs } = timeline;
  const wholeUpTo = report.elapsedMs - intervalMs * SHORTEST_PART;
  const shown = timeline.intervals.filter((_, index) => index === 0 || index * intervalMs <= wholeUpTo);
  const seconds = shown.map(
    (_, index) => Math.min(intervalMs, Math.max(1, report.elapsedMs - index * intervalMs)) / 1_000,
  );
  const x = shown.map((_, index) => (index * intervalMs) / 1_000);
  const kinds = CALL_KINDS.filter((kind) => shown.some(({ calls }) => calls.has(kind)));
  const overTime = (title: string, note: string, unit: Chart['unit'], views: Chart['views']): Chart => {
    return { title, note, unit, xAxis: 'time', x, isLogarithmic: unit === 'ms', views };
  };
  const perSecond = (of: (interval: Interval) => number): number[] =>
    shown.map((interval, index) => round(of(interval) / (seconds[index] ?? 1)));
  const rates = (of: (interval: Interval, kind: CallKind) => number): Line[] =>
    kinds.map((name) => ({ name, values: perSecond((interval) => of(interval, name)) }));
  const failures = failureLines(shown, perSecond);
  const charts = [
    overTime('Rates', 'Successful calls, or their tasks', 'per second', [
      { name: 'calls', lines: rates(({ calls }, kind) => calls.get(kind)?.latencies.count ?? 0) },
      { name: 'tasks', lines: rates(({ calls }, kind) => calls.get(kind)?.tasks ?? 0).filter(hasValues) },
    ]),
    overTime('Latencies', 'Successful calls that ended in each interval', 'ms', [
      { name: 'all calls', lines: latencyLines(shown, kinds) },
      ...kinds.map((kind) => ({ name: kind, lines: latencyLines(shown, [kind]) })),
    ]),
    overTime('Failures', 'Calls that the client has given up, and attempts that it has repeated', 'per second', [
      { name: '', lines: failures },
    ]),
    overTime('Open tasks', 'Tasks in the queues of the load', 'number', [
      { name: '', lines: [{ name: 'tasks', values: shown.map(({ openTasks }) => openTasks) }] },
    ]),
    distribution(timeline.total(), kinds),
  ];
  return charts.filter(({ views }) => views.some(({ lines }) => lines.length > 0));
}

function latencyLines(intervals: readonly Interval[], kinds: readonly CallKind[]): Line[] {
  const all = intervals.map(({ calls }) => sumOf(kinds.flatMap((kind) => calls.get(kind)?.latencies ?? [])));
  return PERCENTILES.map((percentile) => ({
    name: NAMES[percentile] ?? '',
    values: all.map((latencies) => (latencies.count === 0 ? null : round(latencies.at(percentile)))),
  })).toReversed();
}

function failureLines(
  intervals: readonly Interval[],
  perSecond: (of: (interval: Interval) => number) => number[],
): Line[] {
  const lines: Line[] = [];
  const failed = new Set(
    intervals.flatMap(({ calls }) => [...calls.values()].flatMap(({ errors }) => [...errors.keys()])),
  );
  for (const reason of failed) {
    const count = ({ calls }: Interval): number =>
      [...calls.values()].reduce((sum, { errors }) => sum + (errors.get(reason) ?? 0), 0);
    lines.push({ name: `failed: ${reason}`, values: perSecond(count) });
  }
  for (const reason of new Set(intervals.flatMap(({ retries }) => [...retries.keys()]))) {
    lines.push({ name: `repeated: ${reason}`, values: perSecond(({ retries }) => retries.get(reason) ?? 0) });
  }
  return lines;
}

/** The latency that each part of the calls did not exceed, as far as there are enough calls. */
function distribution({ calls }: Interval, kinds: readonly CallKind[]): Chart {
  const lines = kinds.map((name): Line => {
    const latencies = calls.get(name)?.latencies ?? Latencies.empty();
    const values = NINES.map((nines) => {
      const beyond = 10 ** -nines;
      return latencies.count * beyond < 1 ? null : round(latencies.at(100 * (1 - beyond)));
    });
    return { name, values };
  });
  return {
    title: 'Distribution of latencies',
    note: 'The latency that a part of the calls did not exceed',
    unit: 'ms',
    xAxis: 'percentile',
    x: NINES,
    isLogarithmic: true,
    views: [{ name: '', lines: lines.filter(hasValues) }],
  };
}

function sumOf(all: readonly Latencies[]): Latencies {
  const sum = Latencies.empty();
  for (const latencies of all) sum.add(latencies);
  return sum;
}

function hasValues({ values }: Line): boolean {
  return values.some((value) => value !== null && value > 0);
}

function round(number: number): number {
  return Math.round(number * 1_000) / 1_000;
}
