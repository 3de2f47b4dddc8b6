import { setTimeout as delay } from 'node:timers/promises';
import { Cluster } from '../../cluster.ts';
import { type Contestant, compete } from '../../contest.ts';
import { fill } from '../../contestants.ts';
import { cpuTimeOfAll, round } from '../../machine.ts';
import { atMost, cpuFields, cpuRatioOf, type Figures, type Measurement } from '../../measurement.ts';
import type { ServerProcess } from '../../processes.ts';
import { type Bench, CannotRunError, type Row } from '../../row.ts';

const SIZES = [1, 3, 6] as const;
const MOST_RATIO = 1.15;
/** Number of groups of the queues of a run: enough to be on all nodes. */
const GROUPS = 60;
/** Longer runs, because CPU time of a process is counted in hundredths of a second. */
const RUN_FACTOR = 2;

/** How tasks reach the nodes: directly at the holder, through one proxy, or at any node, which forwards most of them. */
type Way = 'direct' | 'proxy' | 'any-node';

interface Offer {
  readonly batch: number;
  /** Rate of tasks that are enqueued, leased and completed, for the whole cluster or for each node. */
  readonly tasksPerS: number;
  readonly of: 'cluster' | 'node';
  readonly way: Way;
}

/**
 * Rates are far below what two cores can serve beside the load generator. So all offered tasks are done, and the CPU time of a
 * task is comparable for all sizes. With the same work for the whole cluster, each of six nodes has a sixth of it: then fewer
 * calls share a disk write and a message, as on one node with little work. The same work for each node does not have this effect.
 */
const offers: readonly Offer[] = [
  { batch: 50, tasksPerS: 5_000, of: 'cluster', way: 'direct' },
  { batch: 50, tasksPerS: 1_000, of: 'node', way: 'direct' },
  { batch: 1, tasksPerS: 600, of: 'cluster', way: 'direct' },
  { batch: 1, tasksPerS: 150, of: 'node', way: 'direct' },
  { batch: 50, tasksPerS: 5_000, of: 'cluster', way: 'proxy' },
  { batch: 1, tasksPerS: 600, of: 'cluster', way: 'proxy' },
  { batch: 50, tasksPerS: 5_000, of: 'cluster', way: 'any-node' },
];

interface Sized {
  readonly size: number;
  readonly cluster: Cluster;
  readonly proxy: ServerProcess;
  /** CPU time of all nodes without any calls, in percent of one core. */
  readonly idlePercent: number;
}

/** CPU time of all nodes for each task, with a fixed rate of work, for clusters of several sizes in turn. */
export const clusterCpu: Row = {
  name: 'cluster-cpu',
  about: 'CPU time of all nodes for each task, of 3 and 6 nodes against 1, the same work offered to each',
  when: 'all',
  async *run(bench) {
    const started: { readonly size: number; readonly cluster: Cluster; readonly proxy: ServerProcess }[] = [];
    for (const size of SIZES) {
      bench.progress(`starting ${size} nodes`);
      const cluster = await Cluster.start(bench.processes, size);
      const proxy = await bench.processes.proxy(cluster.endpoints);
      await warmUp(bench, cluster);
      started.push({ size, cluster, proxy });
    }
    const clusters = await Promise.all(
      started.map(async (one) => ({ ...one, idlePercent: await idleCpu(bench, one.cluster) })),
    );
    // All nodes have been warmed up.
    const warm = { ...bench, scale: { ...bench.scale, warmUpTasks: 1 } };
    for (const offer of offers) {
      const contestants = clusters.map((sized) => paced(bench, sized, offer));
      yield* lines(bench, offer, clusters, await compete(warm, contestants));
    }
    for (const { cluster, proxy } of clusters) {
      await proxy.stop();
      await cluster.stop();
    }
  },
};

/** Warms up all nodes with the same work for each. A sixth of the work would warm a node only a sixth as much. */
async function warmUp({ processes, scale, progress }: Bench, cluster: Cluster): Promise<void> {
  const generator = processes.generator();
  for (const { name, process } of cluster.running) {
    progress(`${cluster.running.length} nodes: warming ${name} up`);
    const [group = ''] = await cluster.groupsOf(name, 1);
    const queue = `${group}#warm-up`;
    await fill(generator, process, queue, 1_000);
    for (const [batch, inFlight, share] of [[1, 50, 0.5] as const, [50, 10, 1] as const]) {
      const operation = { kind: 'lease-complete', via: 'client', queue, batch, replace: true } as const;
      const maxTasks = Math.ceil(scale.warmUpTasks * share);
      const { endpoint } = process;
      await generator.run({ kind: 'loop', endpoint, operation, inFlight, ms: scale.warmUpMs * 10, maxTasks });
    }
  }
  await generator.stop();
}

function paced(bench: Bench, { cluster, proxy, size }: Sized, { batch, tasksPerS, of, way }: Offer): Contestant {
  const generator = bench.processes.generator();
  const endpoint = way === 'proxy' ? proxy.endpoint : cluster.endpoints.join(',');
  const queues = Array.from({ length: GROUPS }, (_, number) => `g${number}#bench`);
  const via = way === 'direct' ? 'direct' : 'client';
  const offered = of === 'node' ? tasksPerS * size : tasksPerS;
  return {
    name: `${size}-nodes`,
    serverPids: cluster.pids,
    proxyPids: way === 'proxy' ? [proxy.pid] : [],
    run: (ms) =>
      generator.run({ kind: 'paced', endpoint, via, queues, batch, tasksPerS: offered, ms: ms * RUN_FACTOR }),
  };
}

function* lines(
  { load }: Bench,
  { batch, tasksPerS, of, way }: Offer,
  clusters: readonly Sized[],
  [one, ...others]: readonly Figures[],
): Generator<Measurement> {
  if (one === undefined) return;
  for (const [index, figures] of others.entries()) {
    const ratio = cpuRatioOf(figures, one, false);
    const { size = 0, idlePercent = 0 } = clusters[index + 1] ?? {};
    yield {
      row: clusterCpu.name,
      variant: `${batch} ${way} ${size}${of === 'node' ? ' each' : ''}`,
      tasksPerS: figures.tasksPerS,
      p50Ms: figures.p50Ms,
      p99Ms: figures.p99Ms,
      baseline: one.name,
      baselinePerS: one.tasksPerS,
      ratio,
      // At any node most tasks pass two nodes, so this way has no target.
      target: way === 'any-node' ? undefined : atMost('ratio', ratio, MOST_RATIO),
      load,
      more: {
        offered_per_s: of === 'node' ? tasksPerS * size : tasksPerS,
        baseline_offered_per_s: tasksPerS,
        ...cpuFields('', figures),
        ...cpuFields('baseline_', one),
        ...(way === 'proxy' && { ratio_with_proxies: round(cpuRatioOf(figures, one, true), 3) }),
        idle_cpu_percent: round(idlePercent, 2),
        baseline_idle_cpu_percent: round(clusters[0]?.idlePercent ?? 0, 2),
        all_cpu_us: figures.allCpuUs.map(({ server }) => round(server, 1)),
        baseline_all_cpu_us: one.allCpuUs.map(({ server }) => round(server, 1)),
      },
    };
  }
}

async function idleCpu({ scale, progress }: Bench, cluster: Cluster): Promise<number> {
  const now = (): number => {
    const time = cpuTimeOfAll(cluster.pids);
    if (time === undefined) throw new CannotRunError('the CPU time of a process can only be read on Linux');
    return time.all;
  };
  progress('idle');
  await delay(scale.settleMs);
  const before = now();
  const began = performance.now();
  await delay(scale.settleMs);
  return ((now() - before) * 100) / (performance.now() - began);
}
