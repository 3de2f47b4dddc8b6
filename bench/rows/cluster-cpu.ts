import { setTimeout as delay } from 'node:timers/promises';
import { Cluster } from '../cluster.ts';
import { type Contestant, compete } from '../contest.ts';
import { cpuTimeOfAll, round } from '../machine.ts';
import { atMost, cpuFields, cpuRatioOf, type Figures, type Measurement } from '../measurement.ts';
import type { ServerProcess } from '../processes.ts';
import { type Bench, CannotRun, type Row } from '../row.ts';

const SIZES = [1, 3, 6] as const;
const MOST_RATIO = 1.15;
/** Groups that the queues of a run are in: they fall on all nodes. */
const GROUPS = 60;
/** CPU times are counted in hundredths of a second for each process: what is measured must be long against that. */
const RUN_FACTOR = 3;

/**
 * What is offered. Well below what two cores serve beside the load generator, so that what is offered is what is done, and CPU
 * time for each task means the same for all sizes.
 */
const loads = [
  { name: '50', batch: 50, tasksPerS: 5_000 },
  { name: 'single', batch: 1, tasksPerS: 500 },
] as const;

/** How tasks get to the nodes. */
const ways = ['direct', 'proxy', 'any-node'] as const;

interface Sized {
  readonly size: number;
  readonly cluster: Cluster;
  readonly proxy: ServerProcess;
  readonly idlePercent: number;
}

/** CPU time of all nodes for each task, with the same work offered to clusters of several sizes, in turn. */
export const clusterCpu: Row = {
  name: 'cluster-cpu',
  about: 'CPU time of all nodes for each task, 1, 3 and 6 nodes, the same work offered to each',
  async *run(bench) {
    const clusters: Sized[] = [];
    for (const size of SIZES) {
      bench.progress(`starting ${size} nodes`);
      const cluster = await Cluster.start(bench.processes, size);
      const proxy = await bench.processes.proxy(cluster.endpoints);
      clusters.push({ size, cluster, proxy, idlePercent: 0 });
    }
    bench.progress('idle');
    const idle = await Promise.all(clusters.map(async (one) => ({ ...one, idlePercent: await idleCpu(bench, one) })));
    for (const way of ways) {
      for (const load of loads) {
        const figures = await compete(
          bench,
          idle.map((sized) => paced(bench, sized, way, load)),
        );
        yield* lines(bench, way, load, idle, figures);
      }
    }
    for (const { cluster, proxy } of clusters) {
      await proxy.stop();
      await cluster.stop();
    }
  },
};

function paced(bench: Bench, sized: Sized, way: (typeof ways)[number], load: (typeof loads)[number]): Contestant {
  const { cluster, proxy, size } = sized;
  const { batch, tasksPerS } = load;
  const generator = bench.processes.generator();
  const endpoint = way === 'proxy' ? proxy.endpoint : cluster.endpoints.join(',');
  const queues = Array.from({ length: GROUPS }, (_, number) => `g${number}#${way}-${load.name}`);
  const via = way === 'direct' ? 'direct' : 'client';
  return {
    name: `${size}-nodes`,
    serverPids: cluster.pids,
    proxyPids: way === 'proxy' ? [proxy.pid] : [],
    run: (ms) => generator.run({ kind: 'paced', endpoint, via, queues, batch, tasksPerS, ms: ms * RUN_FACTOR }),
  };
}

function* lines(
  { load }: Bench,
  way: (typeof ways)[number],
  { name, tasksPerS }: (typeof loads)[number],
  clusters: readonly Sized[],
  [one, ...others]: readonly Figures[],
): Generator<Measurement> {
  if (one === undefined) return;
  for (const [index, figures] of others.entries()) {
    const ratio = cpuRatioOf(figures, one, false);
    const sized = clusters[index + 1];
    yield {
      row: clusterCpu.name,
      variant: `${name} ${way} ${figures.name}`,
      tasksPerS: figures.tasksPerS,
      p50Ms: figures.p50Ms,
      p99Ms: figures.p99Ms,
      baseline: one.name,
      baselinePerS: one.tasksPerS,
      ratio,
      // With every node as a proxy, most calls are passed on by one.
      target: way === 'any-node' ? undefined : atMost('ratio', ratio, MOST_RATIO),
      load,
      more: {
        offered_per_s: tasksPerS,
        ...cpuFields('', figures),
        ...cpuFields('baseline_', one),
        ...(way === 'proxy' && { ratio_with_proxies: round(cpuRatioOf(figures, one, true), 3) }),
        idle_cpu_percent: round(sized?.idlePercent ?? 0, 2),
        baseline_idle_cpu_percent: round(clusters[0]?.idlePercent ?? 0, 2),
        all_cpu_us: figures.allCpuUs.map(({ server }) => round(server, 1)),
        baseline_all_cpu_us: one.allCpuUs.map(({ server }) => round(server, 1)),
      },
    };
  }
}

/** CPU that all nodes use while nobody asks anything of them, in percent of one core. */
async function idleCpu({ scale }: Bench, { cluster }: Sized): Promise<number> {
  const now = (): number => {
    const time = cpuTimeOfAll(cluster.pids);
    if (time === undefined) throw new CannotRun('the CPU time of a process can only be read on Linux');
    return time.all;
  };
  await delay(scale.settleMs);
  const before = now();
  const began = performance.now();
  await delay(scale.settleMs);
  return ((now() - before) * 100) / (performance.now() - began);
}
