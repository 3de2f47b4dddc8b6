import { type CpuTime, round } from './machine.ts';

/** The result of one run of a load. */
export interface LoadResult {
  /** Tasks done within the run. */
  readonly tasks: number;
  /** Tasks begun within the run and done after it. */
  readonly lateTasks: number;
  readonly elapsedMs: number;
  /** Undefined if the load measures no latency of single operations. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** CPU time of the load generator, in ms. */
  readonly generatorCpuMs: number;
  /** Begin and end on the machine's monotonic clock, in µs: the clock of CPU profiles. */
  readonly beganUs: number;
  readonly endedUs: number;
}

/** The result of one run of a load at a fixed rate. Latencies are those of calls, including all retries. */
export interface PacedResult extends LoadResult {
  readonly maxMs: number;
  readonly calls: number;
  /** Failed attempts that were retried. */
  readonly repeated: number;
  /** Calls that failed after all retries. `reasons`: their number by reason. */
  readonly failed: number;
  readonly reasons: Readonly<Record<string, number>>;
}

/** The medians of a contestant's runs. */
export interface Figures {
  readonly name: string;
  readonly tasksPerS: number;
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** CPU time of the server for each task, in µs. */
  readonly serverCpuUs: CpuTime | undefined;
  /** CPU time of the proxies for each task, in µs. Undefined without proxies. */
  readonly proxyCpuUs: number | undefined;
  /** CPU time of the load generator for each task, in µs. */
  readonly generatorCpuUs: number;
  /** Tasks per second of every run, in order. The runs with the same index ran directly after each other. */
  readonly all: readonly number[];
  /** Latencies of every run. */
  readonly allLatencies: readonly Pick<LoadResult, 'p50Ms' | 'p99Ms'>[];
  /** CPU time of servers and proxies for each task, of every run, in µs. */
  readonly allCpuUs: readonly { readonly server: number; readonly proxy: number }[];
}

/** The target of a row. */
export interface Target {
  /** The figure that is compared: `ratio`, or one of `more`. */
  readonly of: string;
  readonly atLeast: boolean;
  readonly bound: number;
  readonly met: boolean;
}

/** One line of the report. */
export interface Measurement {
  readonly row: string;
  /** The measured variant of the row. */
  readonly variant: string;
  readonly tasksPerS?: number | undefined;
  readonly p50Ms?: number | undefined;
  readonly p99Ms?: number | undefined;
  /** Name of the baseline, which was measured in the same run. */
  readonly baseline?: string | undefined;
  readonly baselinePerS?: number | undefined;
  /** The measured figure divided by the baseline's. For rates: the median over pairs of neighbouring runs. */
  readonly ratio?: number | undefined;
  readonly target?: Target | undefined;
  /** Load average of the machine when the row began. */
  readonly load: number;
  /** More figures. Their names end with the unit. */
  readonly more?: Readonly<Record<string, number | string | readonly number[]>> | undefined;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** The smallest value that at least `percent` % of the values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

/** Ratio of two contestants' rates: the median over pairs of neighbouring runs, so that a busy machine affects both. */
export function ratioOf(measured: Figures, baseline: Figures): number {
  return median(measured.all.map((rate, i) => rate / (baseline.all[i] ?? Number.NaN)));
}

/** As `ratioOf`, for the CPU time of each task, with or without that of the proxies. */
export function cpuRatioOf(measured: Figures, baseline: Figures, withProxies: boolean): number {
  const cpuUs = (figures: Figures, run: number): number => {
    const { server, proxy } = figures.allCpuUs[run] ?? { server: Number.NaN, proxy: Number.NaN };
    return withProxies ? server + proxy : server;
  };
  return median(measured.allCpuUs.map((_cpu, run) => cpuUs(measured, run) / cpuUs(baseline, run)));
}

/** Ratio of two contestants' median latencies, paired in the same way. */
export function latencyRatioOf(measured: Figures, baseline: Figures, of: 'p50Ms' | 'p99Ms' = 'p50Ms'): number {
  const other = (run: number): number => baseline.allLatencies[run]?.[of] ?? Number.NaN;
  return median(measured.allLatencies.map((latencies, run) => (latencies[of] ?? Number.NaN) / other(run)));
}

export function atLeast(what: string, value: number, bound: number): Target {
  return { of: what, atLeast: true, bound, met: value >= bound };
}

export function atMost(what: string, value: number, bound: number): Target {
  return { of: what, atLeast: false, bound, met: value <= bound };
}

/** `ratio >= 0.8` */
export function targetText({ of, atLeast: least, bound }: Target): string {
  return `${of} ${least ? '>=' : '<='} ${bound}`;
}

/** A contestant beside its baseline. */
export function versus(
  line: Pick<Measurement, 'row' | 'variant' | 'load' | 'more'>,
  measured: Figures,
  baseline: Figures,
  targetOf?: (ratio: number) => Target,
): Measurement {
  const ratio = ratioOf(measured, baseline);
  return {
    ...line,
    tasksPerS: measured.tasksPerS,
    p50Ms: measured.p50Ms,
    p99Ms: measured.p99Ms,
    baseline: baseline.name,
    baselinePerS: baseline.tasksPerS,
    ratio,
    target: targetOf?.(ratio),
    more: {
      ...cpuFields('', measured),
      ...cpuFields('baseline_', baseline),
      ...latencyFields('baseline_', baseline),
      ...line.more,
      all_per_s: measured.all.map(Math.round),
      baseline_all_per_s: baseline.all.map(Math.round),
    },
  };
}

export function latencyFields(prefix: string, { p50Ms, p99Ms }: Figures): Record<string, number> {
  return {
    ...(p50Ms !== undefined && { [`${prefix}p50_ms`]: round(p50Ms, 3) }),
    ...(p99Ms !== undefined && { [`${prefix}p99_ms`]: round(p99Ms, 3) }),
  };
}

/** CPU times as fields of a report. Leaves out kinds of threads without CPU time. */
export function cpuFields(
  prefix: string,
  { serverCpuUs, proxyCpuUs = 0, generatorCpuUs }: Figures,
): Record<string, number> {
  const { all, ...threads } = serverCpuUs ?? { all: 0 };
  const named: [string, number][] = [
    ['server', all],
    ...Object.entries(threads).map(([kind, us]): [string, number] => [`server_${kind}`, us]),
    ['proxy', proxyCpuUs],
    ['generator', generatorCpuUs],
  ];
  return Object.fromEntries(
    named.filter(([, us]) => us > 0).map(([name, us]) => [`${prefix}${name}_cpu_us`, round(us, 1)]),
  );
}
