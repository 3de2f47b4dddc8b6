import { Cluster } from '../../cluster.ts';
import { type Contestant, compete } from '../../contest.ts';
import { type Load, onNode, type Way } from '../../contestants.ts';
import type { Via } from '../../load/jobs.ts';
import { round } from '../../machine.ts';
import { atLeast, atMost, cpuRatioOf, type Figures, type Measurement, median, versus } from '../../measurement.ts';
import type { Bench, Row } from '../../row.ts';

const HOLDER = 'a';
const OTHER = 'b';
const LEAST_RATIO = 0.7;
/** Limit of the proxy's CPU time for each task, as a fraction of the node's. */
const MOST_CPU_RATIO = 0.6;
const PROXY = 'proxy';

interface Through {
  readonly name: string;
  readonly load: (via: Via) => Load;
  readonly via: Via;
  /** True if the row has a target. */
  readonly counts: boolean;
}

const single = { batch: 1, inFlight: 500 } as const;
const batches = { batch: 50, inFlight: 10 } as const;

const loads: readonly Through[] = [
  { name: 'B1', load: (via) => ({ kind: 'enqueue', via, ...single }), via: 'unary', counts: true },
  { name: 'B3', load: (via) => ({ kind: 'enqueue', via, ...single }), via: 'client', counts: true },
  { name: 'B5', load: (via) => ({ kind: 'enqueue', via, ...batches }), via: 'client', counts: true },
  { name: 'B6', load: (via) => ({ kind: 'lease-complete', via, ...batches }), via: 'client', counts: true },
  { name: 'alone', load: (via) => ({ kind: 'enqueue', via, batch: 1, inFlight: 1 }), via: 'client', counts: false },
];

/** The ways to a node in a cluster of two, each compared with direct calls to the node. */
export const throughProxy: Row = {
  name: 'B14',
  about: 'B1, B3, B5, B6 through a proxy, through another node and with direct routing, against straight to the holder',
  when: 'all',
  async *run(bench) {
    const { processes } = bench;
    const cluster = await Cluster.start(processes, 2);
    const proxy = await processes.proxy(cluster.endpoints);
    const [group = ''] = await cluster.groupsOf(HOLDER, 1);
    const holder = cluster.node(HOLDER);
    const other = cluster.node(OTHER);
    const only = { group, serverPids: [holder.pid] };
    // The CPU time of both nodes counts, because a node that forwards calls works like a proxy.
    const both = { group, serverPids: cluster.pids };
    for (const through of loads) {
      const on = (via: Via, way: Way): Contestant => onNode(bench, holder, through.load(via), way);
      const ways: [Contestant, ...Contestant[]] = [
        on(through.via, { ...only, name: 'holder', endpoint: holder.endpoint }),
        on(through.via, { ...only, name: PROXY, endpoint: proxy.endpoint, proxyPids: [proxy.pid] }),
        on(through.via, { ...both, name: 'other-node', endpoint: other.endpoint }),
      ];
      // Only the typed client can call holders directly.
      if (through.via !== 'unary') {
        ways.push(on('direct', { ...both, name: 'direct-routing', endpoint: other.endpoint }));
      }
      yield* compare(bench, through, ways);
    }
    await proxy.stop();
    await cluster.stop();
  },
};

async function* compare(
  bench: Bench,
  { name, counts }: Through,
  ways: readonly Contestant[],
): AsyncGenerator<Measurement> {
  const [straight, ...others] = await compete(bench, ways);
  if (straight === undefined) return;
  for (const other of others) {
    const line = { row: throughProxy.name, variant: `${name} ${other.name}`, load: bench.load };
    const more = { cpu_ratio: round(cpuRatioOf(other, straight, true), 3) };
    const wanted = counts && other.name === PROXY;
    yield versus(
      { ...line, more },
      other,
      straight,
      wanted ? (ratio) => atLeast('ratio', ratio, LEAST_RATIO) : undefined,
    );
    if (wanted) yield cpuLine(bench, name, other, straight);
  }
}

/**
 * CPU time of proxy and node for each task, in the same runs. A node that gets many calls in one message of a proxy has less work
 * than a node that gets each call by itself. The line shows the CPU time of the latter, too.
 */
function cpuLine(
  { load }: Bench,
  name: string,
  { allCpuUs, serverCpuUs, proxyCpuUs }: Figures,
  straight: Figures,
): Measurement {
  const ratio = median(allCpuUs.map(({ proxy, server }) => proxy / server));
  return {
    row: throughProxy.name,
    variant: `${name} ${PROXY} CPU`,
    baseline: 'node',
    ratio,
    target: atMost('ratio', ratio, MOST_CPU_RATIO),
    load,
    more: {
      proxy_cpu_us: round(proxyCpuUs ?? 0, 1),
      server_cpu_us: round(serverCpuUs?.all ?? 0, 1),
      straight_server_cpu_us: round(straight.serverCpuUs?.all ?? 0, 1),
    },
  };
}
