import { type CpuTime, cpuTimeOfAll, mapCpuTime } from './machine.ts';
import { type Figures, type LoadResult, median } from './measurement.ts';
import type { Bench, Scale } from './row.ts';

/** A server that loads run against. */
export interface Contestant {
  readonly name: string;
  /** Processes whose CPU time counts as the server's. Empty: the load runs in the generator only. */
  readonly serverPids: readonly number[];
  /** Proxies in front of them. Default none. */
  readonly proxyPids?: readonly number[];
  /** Prepares a run of about `expectedTasks` tasks. Not measured. */
  prepare?(expectedTasks: number): Promise<void>;
  run(ms: number): Promise<LoadResult>;
  /** True if its runs are part of the profile. */
  readonly profiled?: boolean;
}

/** Tasks are prepared for this multiple of the previous run, so that a faster run has enough. */
const PREPARE_FACTOR = 1.4;

/** Limit of warm-up runs: a slow contestant need not do as many tasks as a fast one. */
const WARM_UPS = 6;

/** Tasks prepared for the first run of a contestant, whose speed is not known yet. They may not be enough. */
const FIRST_TASKS_PER_MS = 25;

/**
 * Runs the contestants in turn, several times, after a warm-up. If another process slows the machine for some seconds, it
 * slows all contestants.
 */
export async function compete<const Names extends readonly Contestant[]>(
  bench: Bench,
  contestants: Names,
): Promise<{ [K in keyof Names]: Figures }> {
  const { runMs, repetitions } = bench.scale;
  const runs = contestants.map((contestant) => new Runs(contestant));
  for (const one of runs) {
    bench.progress(`${one.contestant.name}: warm-up`);
    await one.warmUp(bench.scale);
  }
  for (let repetition = 1; repetition <= repetitions; repetition++) {
    for (const one of runs) {
      bench.progress(`${one.contestant.name}: run ${repetition} of ${repetitions}`);
      const result = await one.measure(runMs);
      if (one.contestant.profiled === true) {
        const { beganUs, endedUs, tasks } = result;
        bench.measured({ of: one.label, beganUs, endedUs, tasks });
      }
    }
  }
  return runs.map((one) => one.figures()) as { [K in keyof Names]: Figures };
}

/** The runs of one contestant. */
class Runs {
  readonly contestant: Contestant;
  readonly #results: LoadResult[] = [];
  /** CPU time for each task, in µs. */
  readonly #cpu: Cpu[] = [];
  #tasksPerMs = FIRST_TASKS_PER_MS;

  constructor(contestant: Contestant) {
    this.contestant = contestant;
  }

  /** Unique within the row, because contestants may have the same name. */
  get label(): string {
    const { name, serverPids } = this.contestant;
    return serverPids.length === 0 ? name : `${name} (process ${serverPids.join(', ')})`;
  }

  async warmUp({ warmUpMs, warmUpTasks }: Scale): Promise<void> {
    for (let run = 1, tasks = 0; run <= WARM_UPS && tasks < warmUpTasks; run++) {
      const { result } = await this.#run(warmUpMs);
      tasks += result.tasks;
    }
  }

  async measure(ms: number): Promise<LoadResult> {
    const { result, cpu } = await this.#run(ms);
    this.#results.push(result);
    this.#cpu.push({
      server: cpu.server && perTask(cpu.server, result),
      proxy: cpu.proxy && perTask(cpu.proxy, result),
    });
    return result;
  }

  figures(): Figures {
    const all = this.#results.map(({ tasks, elapsedMs }) => (tasks * 1000) / elapsedMs);
    return {
      name: this.contestant.name,
      tasksPerS: median(all),
      p50Ms: medianOf(this.#results.map(({ p50Ms }) => p50Ms)),
      p99Ms: medianOf(this.#results.map(({ p99Ms }) => p99Ms)),
      serverCpuUs: medianCpu(this.#cpu.flatMap(({ server }) => server ?? [])),
      proxyCpuUs: medianCpu(this.#cpu.flatMap(({ proxy }) => proxy ?? []))?.all,
      generatorCpuUs: median(this.#results.map((result) => (result.generatorCpuMs * 1000) / allTasks(result))),
      all,
      allLatencies: this.#results.map(({ p50Ms, p99Ms }) => ({ p50Ms, p99Ms })),
      allCpuUs: this.#cpu.map(({ server, proxy }) => ({ server: server?.all ?? 0, proxy: proxy?.all ?? 0 })),
    };
  }

  async #run(ms: number): Promise<{ readonly result: LoadResult; readonly cpu: Cpu }> {
    const { contestant } = this;
    await contestant.prepare?.(Math.ceil(this.#tasksPerMs * ms * PREPARE_FACTOR));
    const before = cpuOf(contestant);
    const result = await contestant.run(ms);
    const after = cpuOf(contestant);
    if (result.tasks === 0) throw new Error(`${contestant.name} did nothing within ${ms} ms`);
    this.#tasksPerMs = result.tasks / result.elapsedMs;
    const cpu = { server: between(before.server, after.server), proxy: between(before.proxy, after.proxy) };
    return { result, cpu };
  }
}

/** CPU time of one run. Undefined without such processes, or if the system does not report it. */
interface Cpu {
  readonly server: CpuTime | undefined;
  readonly proxy: CpuTime | undefined;
}

function cpuOf({ serverPids, proxyPids = [] }: Contestant): Cpu {
  return { server: cpuTimeOfAll(serverPids), proxy: cpuTimeOfAll(proxyPids) };
}

function between(before: CpuTime | undefined, after: CpuTime | undefined): CpuTime | undefined {
  return before && after && mapCpuTime(after, (ms, kind) => ms - before[kind]);
}

/** Converts ms for a run into µs for a task. */
function perTask(cpu: CpuTime, run: LoadResult): CpuTime {
  return mapCpuTime(cpu, (ms) => (ms * 1000) / allTasks(run));
}

function medianCpu(times: readonly CpuTime[]): CpuTime | undefined {
  const [first] = times;
  return first && mapCpuTime(first, (_us, kind) => median(times.map((time) => time[kind])));
}

/** All tasks that used CPU time, including late ones. */
function allTasks({ tasks, lateTasks }: LoadResult): number {
  return tasks + lateTasks;
}

function medianOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : median(known);
}
