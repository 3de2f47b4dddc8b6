import { Cluster } from '../cluster.ts';
import { type Contestant, compete } from '../contest.ts';
import { type Load, onNode } from '../contestants.ts';
import type { Via } from '../load/jobs.ts';
import { round } from '../machine.ts';
import { cpuRatioOf, type Measurement, versus } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';

const HOLDER = 'a';
const OTHER = 'b';

type LoadOf = (via: Via) => Load;

const batches = { batch: 50, inFlight: 10 } as const;

const loads: Readonly<Record<string, LoadOf>> = {
  'enqueue-single': (via) => ({ kind: 'enqueue', via, batch: 1, inFlight: 500 }),
  'enqueue-alone': (via) => ({ kind: 'enqueue', via, batch: 1, inFlight: 1 }),
  'enqueue-50': (via) => ({ kind: 'enqueue', via, ...batches }),
  'lease-complete-50': (via) => ({ kind: 'lease-complete', via, ...batches }),
};

/** The ways to a node of a cluster of two, in turn; each against the way straight to it. */
export const throughProxy: Row = {
  name: 'through-proxy',
  about:
    'through a proxy, through a node that does not hold the queue, and with direct routing, against straight to it',
  async *run(bench) {
    const { processes } = bench;
    const cluster = await Cluster.start(processes, 2);
    const proxy = await processes.proxy(cluster.endpoints);
    const [group = ''] = await cluster.groupsOf(HOLDER, 1);
    const holder = cluster.node(HOLDER);
    const other = cluster.node(OTHER);
    // Of both nodes, whatever the way: a node that only passes on costs what a proxy costs.
    const way = { group, serverPids: cluster.pids };
    for (const [name, load] of Object.entries(loads)) {
      const ways: [Contestant, ...Contestant[]] = [
        onNode(bench, holder, load('client'), { ...way, name: 'holder', endpoint: holder.endpoint }),
        onNode(bench, holder, load('client'), {
          ...way,
          name: 'proxy',
          endpoint: proxy.endpoint,
          proxyPids: [proxy.pid],
        }),
        onNode(bench, holder, load('client'), { ...way, name: 'other-node', endpoint: other.endpoint }),
        onNode(bench, holder, load('direct'), { ...way, name: 'direct-routing', endpoint: other.endpoint }),
      ];
      yield* compare(bench, name, ways);
    }
    await proxy.stop();
    await cluster.stop();
  },
};

async function* compare(bench: Bench, name: string, ways: readonly Contestant[]): AsyncGenerator<Measurement> {
  const [straight, ...others] = await compete(bench, ways);
  if (straight === undefined) return;
  for (const other of others) {
    const line = { row: throughProxy.name, variant: `${name} ${other.name}`, load: bench.load };
    yield versus({ ...line, more: { cpu_ratio: round(cpuRatioOf(other, straight, true), 3) } }, other, straight);
  }
}
