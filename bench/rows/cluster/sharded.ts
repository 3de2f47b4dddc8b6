import { Cluster } from '../../cluster.ts';
import { type Contestant, compete } from '../../contest.ts';
import { cpuTimeOf, round } from '../../machine.ts';
import { type LoadResult, median, versus } from '../../measurement.ts';
import type { Bench, Row } from '../../row.ts';

const NODES = 3;
/** Several times the number of nodes, so that each holds about as many. */
const SHARDS = 12;
const IN_FLIGHT = 2_000;
/** Enqueues that fill a queue before a run of leases. */
const FILL_BATCH = 500;
const FILL_MS = 10 * 60_000;

const kinds = ['enqueue', 'lease-complete'] as const;

/**
 * A sharded queue beside one queue, on three nodes that share two cores. The rates cannot grow with the nodes here. The share of
 * the busiest node in the CPU time shows by how much its load falls.
 */
export const sharded: Row = {
  name: 'sharded',
  about:
    'single enqueues, and leases and completions of single tasks, 2,000 in flight, on a queue of 12 shards on 3 nodes, against one queue; the share of the busiest node in the CPU time',
  when: 'all',
  async *run(bench) {
    const cluster = await Cluster.start(bench.processes, NODES);
    for (const kind of kinds) {
      const shares = new Map<string, number[]>();
      const on = (name: string, shards: number | undefined): Contestant =>
        contestant(bench, cluster, { name, kind, shards }, (share) => {
          shares.set(name, [...(shares.get(name) ?? []), share]);
        });
      const [one, many] = await compete(bench, [on('one queue', undefined), on('sharded', SHARDS)]);
      const more = {
        busiest_node_share: round(median(shares.get(many.name) ?? []), 2),
        baseline_busiest_node_share: round(median(shares.get(one.name) ?? []), 2),
      };
      yield versus({ row: sharded.name, variant: kind, load: bench.load, more }, many, one);
    }
    await cluster.stop();
  },
};

interface Divided {
  readonly name: string;
  readonly kind: (typeof kinds)[number];
  readonly shards: number | undefined;
}

/** A client with direct routing. Each run has a new queue. */
function contestant(
  { processes }: Bench,
  cluster: Cluster,
  { name, kind, shards }: Divided,
  onShare: (share: number) => void,
): Contestant {
  const generator = processes.generator();
  const endpoint = cluster.endpoints[0] ?? '';
  const queueOf = (run: number): string => `${name.replace(' ', '-')}-${kind}#run-${run}`;
  const common = { via: 'direct', ...(shards === undefined ? {} : { shards }) } as const;
  let run = 0;
  return {
    name,
    serverPids: cluster.pids,
    async prepare(expectedTasks) {
      run++;
      if (kind === 'enqueue') return;
      const operation = { kind: 'enqueue', ...common, queue: queueOf(run), batch: FILL_BATCH } as const;
      await generator.run({ kind: 'loop', endpoint, operation, inFlight: 4, ms: FILL_MS, maxTasks: expectedTasks });
    },
    async run(ms): Promise<LoadResult> {
      const before = cpuOfEach(cluster);
      const queue = queueOf(run);
      const operation =
        kind === 'enqueue'
          ? ({ kind, ...common, queue, batch: 1 } as const)
          : ({ kind, ...common, queue, batch: 1, replace: false } as const);
      const result = await generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms });
      const used = cpuOfEach(cluster).map((after, node) => after - (before[node] ?? 0));
      onShare(Math.max(...used) / used.reduce((sum, one) => sum + one, 0));
      return result;
    },
  };
}

/** CPU time of each node so far, in ms. */
const cpuOfEach = ({ pids }: Cluster): number[] => pids.map((pid) => cpuTimeOf(pid)?.all ?? 0);
