import { type Contestant, compete } from '../contest.ts';
import type { Via } from '../load/jobs.ts';
import { type Figures, latencyFields, type Measurement } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';

/** Latency from an enqueue to the reply of a consumer that waits for it in a long poll, on an idle node. */
export const enqueueToWaiting: Row = {
  name: 'enqueue-to-waiting',
  about: 'latency from enqueue to a consumer that waits in a long poll, idle node',
  async *run(bench) {
    for (const via of ['unary', 'client'] as const) yield* measure(bench, via);
  },
};

async function* measure(bench: Bench, via: Via): AsyncGenerator<Measurement> {
  const { processes, load } = bench;
  const node = await processes.node();
  const noop = await processes.noopServer();
  const [handOver, roundTrip, sync] = await compete(bench, [
    handOvers(bench, node.endpoint, node.pid, via),
    oneAtATime(bench, 'noop-unary', noop.endpoint, noop.pid),
    oneAtATime(bench, 'raw-store', await processes.directory(), undefined),
  ]);
  await node.stop();
  await noop.stop();
  for (const baseline of [roundTrip, sync]) yield latencyLine(via, load, handOver, baseline);
}

/** Here the ratio is of medians of latencies: how many bare round trips, or bare fsyncs, a hand-over takes. */
function latencyLine(variant: string, load: number, handOver: Figures, baseline: Figures): Measurement {
  const ratio =
    handOver.p50Ms !== undefined && baseline.p50Ms !== undefined ? handOver.p50Ms / baseline.p50Ms : undefined;
  return {
    row: enqueueToWaiting.name,
    variant,
    p50Ms: handOver.p50Ms,
    p99Ms: handOver.p99Ms,
    baseline: baseline.name,
    ratio,
    load,
    more: latencyFields('baseline_', baseline),
  };
}

function handOvers(bench: Bench, endpoint: string, serverPid: number, via: Via): Contestant {
  const generator = bench.processes.generator();
  const count = bench.scale.handOvers;
  return {
    name: 'node',
    serverPids: [serverPid],
    run: () => generator.run({ kind: 'hand-over', endpoint, via, queue: 'bench', count }),
  };
}

/** One enqueue after the other: what a round trip, or a synced write, takes at least. */
function oneAtATime(bench: Bench, name: string, endpoint: string, serverPid: number | undefined): Contestant {
  const generator = bench.processes.generator();
  const operation =
    serverPid === undefined
      ? ({ kind: 'store-enqueue', batch: 1 } as const)
      : ({ kind: 'enqueue', via: 'unary', queue: 'bench', batch: 1 } as const);
  const serverPids = serverPid === undefined ? [] : [serverPid];
  return { name, serverPids, run: (ms) => generator.run({ kind: 'loop', endpoint, operation, inFlight: 1, ms }) };
}
