import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { Cluster } from '../../cluster.ts';
import { type Contestant, compete } from '../../contest.ts';
import { round } from '../../machine.ts';
import { cpuRatioOf, type LoadResult, versus } from '../../measurement.ts';
import type { Bench, Row } from '../../row.ts';

const NODES = [1, 2, 4];
const SHARDS = 16;
/** A completion of tasks of several shards would be several updates, so that tasks are leased one by one. */
const LOADS = { enqueue: { batch: 50, inFlight: 20 }, 'lease-complete': { batch: 1, inFlight: 1_000 } } as const;
const FILL_BATCH = 500;
const FILL_MS = 10 * 60_000;
/** Without it, each node would take its memory as if it were alone. */
const MEMORY = '--memory=1GiB';

const kinds = ['enqueue', 'lease-complete'] as const;

/** What several nodes on one machine give and cost. Each node is bound to one core, in turn. */
export const oneMachine: Row = {
  name: 'one-machine',
  about:
    'enqueues of 50, and leases and completions of single tasks, on a sharded queue, on 2 and 4 nodes of this machine, each bound to a core, against one node',
  when: 'all',
  async *run(bench) {
    const clusters = [];
    for (const nodes of NODES) clusters.push(await pinned(bench, nodes));
    for (const kind of kinds) {
      const [one, ...others] = await compete(
        bench,
        clusters.map((cluster) => contestant(bench, cluster, kind)),
      );
      if (one === undefined) return;
      for (const other of others) {
        const more = { cpu_ratio: round(cpuRatioOf(other, one, true), 2) };
        yield versus({ row: oneMachine.name, variant: `${kind} ${other.name}`, load: bench.load, more }, other, one);
      }
    }
    for (const cluster of clusters) await cluster.stop();
  },
};

async function pinned({ processes }: Bench, nodes: number): Promise<Cluster> {
  const cluster = await Cluster.start(processes, nodes, [MEMORY]);
  for (const [at, pid] of cluster.pids.entries()) {
    const core = at % availableParallelism();
    await promisify(execFile)('taskset', ['--all-tasks', '--pid', '--cpu-list', String(core), String(pid)]);
  }
  return cluster;
}

function contestant({ processes }: Bench, cluster: Cluster, kind: (typeof kinds)[number]): Contestant {
  const generator = processes.generator();
  const endpoint = cluster.endpoints[0] ?? '';
  const { batch, inFlight } = LOADS[kind];
  let run = 0;
  const of = () => ({ via: 'direct', shards: SHARDS, queue: `${kind}#run-${run}` }) as const;
  return {
    name: `${cluster.pids.length} nodes`,
    serverPids: cluster.pids,
    async prepare(expectedTasks) {
      run++;
      if (kind === 'enqueue') return;
      const operation = { kind: 'enqueue', ...of(), batch: FILL_BATCH } as const;
      await generator.run({ kind: 'loop', endpoint, operation, inFlight: 4, ms: FILL_MS, maxTasks: expectedTasks });
    },
    run(ms): Promise<LoadResult> {
      const operation =
        kind === 'enqueue' ? ({ kind, ...of(), batch } as const) : ({ kind, ...of(), batch, replace: false } as const);
      return generator.run({ kind: 'loop', endpoint, operation, inFlight, ms });
    },
  };
}
