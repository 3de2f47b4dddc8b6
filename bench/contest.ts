import { type CpuTime, cpuTimeOfAll, mapCpuTime } from './machine.ts';
import { type Figures, type LoadResult, median } from './measurement.ts';
import type { Bench, Scale } from './row.ts';

/** Something that a load runs against. */
export interface Contestant {
  readonly name: string;
  /** Processes whose CPU time is the server's; none: the load generator is all there is. */
  readonly serverPids: readonly number[];
  /** Proxies in front of them. Default none. */
  readonly proxyPids?: readonly number[];
  /** Makes ready for a run of about so many tasks; not measured. */
  prepare?(expectedTasks: number): Promise<void>;
  run(ms: number): Promise<LoadResult>;
  /** Whether its runs go into the profile. */
  readonly profiled?: boolean;
}

/** Room above what the run before did, so that a quicker one does not run dry. */
const PREPARE_FACTOR = 1.4;

/** Warm-up runs at most: a slow contestant need not do as many tasks as a quick one. */
const WARM_UPS = 6;

/** Tasks prepared for the first run of all, of a contestant that nothing is known of; it may run dry. */
const FIRST_TASKS_PER_MS = 25;

/**
 * Runs the contestants in turn, several times, after a warm-up: a neighbour that makes the machine slow for some seconds
 * makes it slow for all of them.
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
  /** Per task, in µs. */
  readonly #cpu: Cpu[] = [];
  #tasksPerMs = FIRST_TASKS_PER_MS;

  constructor(contestant: Contestant) {
    this.contestant = contestant;
  }

  /** Tells it from the others of its row, whose names may be the same. */
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

/** CPU time of one run; undefined where there are no such processes, or the system does not tell. */
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

/** From ms of a run to µs of a task. */
function perTask(cpu: CpuTime, run: LoadResult): CpuTime {
  return mapCpuTime(cpu, (ms) => (ms * 1000) / allTasks(run));
}

function medianCpu(times: readonly CpuTime[]): CpuTime | undefined {
  const [first] = times;
  return first && mapCpuTime(first, (_us, kind) => median(times.map((time) => time[kind])));
}

/** All that CPU time was spent on. */
function allTasks({ tasks, lateTasks }: LoadResult): number {
  return tasks + lateTasks;
}

function medianOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : median(known);
}
