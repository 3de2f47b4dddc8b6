import { type Contestant, compete } from '../contest.ts';
import { IDLE_MS } from '../load/consume.ts';
import type { Operation, Via } from '../load/jobs.ts';
import { round } from '../machine.ts';
import { atMost, type Figures, type LoadResult, type Measurement, median } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';

/** Limit of the ratio to a round trip and an fsync, one after the other. */
const MOST_RATIO = 1.5;

/**
 * Latency from an enqueue to the reply of a consumer that waits in a long poll, one task at a time. A machine that has to wake up
 * is slower, so the compared parts are measured in the same way: without a pause, or after one.
 */
export const enqueueToWaiting: Row = {
  name: 'B7',
  about: 'latency from enqueue to a consumer that waits in a long poll, idle node, against a round trip and an fsync',
  when: 'always',
  async *run(bench) {
    for (const via of ['unary', 'client'] as const) {
      for (const restMs of [0, IDLE_MS]) yield* measure(bench, via, restMs);
    }
  },
};

async function* measure(bench: Bench, via: Via, restMs: number): AsyncGenerator<Measurement> {
  const { processes, load } = bench;
  const node = await processes.node();
  const noop = await processes.noopServer();
  const enqueue = { kind: 'enqueue', via: 'unary', queue: 'bench', batch: 1 } as const;
  const [handOver, roundTrip, synced, store] = await compete(bench, [
    handOvers(bench, node.endpoint, node.pid, via, restMs),
    oneAtATime(bench, 'no-op unary', noop.endpoint, enqueue, restMs, [noop.pid]),
    oneAtATime(bench, 'fsync', await processes.directory(), { kind: 'sync-file' }, restMs),
    oneAtATime(bench, 'raw store', await processes.directory(), { kind: 'store-enqueue', batch: 1 }, restMs),
  ]);
  await node.stop();
  await noop.stop();
  for (const figure of ['p50Ms', 'p99Ms'] as const) {
    const ratio = toSum(handOver, [roundTrip, synced], figure);
    yield {
      row: enqueueToWaiting.name,
      variant: `${via}${restMs > 0 ? ' rested' : ''} ${figure === 'p50Ms' ? 'p50' : 'p99'}`,
      p50Ms: handOver.p50Ms,
      p99Ms: handOver.p99Ms,
      baseline: 'no-op unary + fsync',
      ratio,
      target: atMost('ratio', ratio, MOST_RATIO),
      load,
      more: {
        ...latencies('noop', roundTrip),
        ...latencies('fsync', synced),
        ...latencies('raw_store', store),
        ratio_with_raw_store: round(toSum(handOver, [roundTrip, store], figure), 3),
      },
    };
  }
}

type Latency = keyof Pick<LoadResult, 'p50Ms' | 'p99Ms'>;

/** The ratio of a latency to the sum of the parts: the median over neighbouring runs. */
function toSum({ allLatencies }: Figures, parts: readonly Figures[], of: Latency): number {
  const ofRun = (run: number): number =>
    parts.reduce((sum, part) => sum + (part.allLatencies[run]?.[of] ?? Number.NaN), 0);
  return median(allLatencies.map((latency, run) => (latency[of] ?? Number.NaN) / ofRun(run)));
}

function latencies(name: string, { p50Ms = 0, p99Ms = 0 }: Figures): Record<string, number> {
  return { [`${name}_p50_ms`]: round(p50Ms, 3), [`${name}_p99_ms`]: round(p99Ms, 3) };
}

function handOvers(bench: Bench, endpoint: string, serverPid: number, via: Via, pauseMs: number): Contestant {
  const generator = bench.processes.generator();
  const count = bench.scale.handOvers;
  return {
    name: 'node',
    serverPids: [serverPid],
    run: () => generator.run({ kind: 'hand-over', endpoint, via, queue: 'bench', count, pauseMs }),
  };
}

/** One operation after the other, for its shortest latency. */
function oneAtATime(
  bench: Bench,
  name: string,
  endpoint: string,
  operation: Operation,
  pauseMs: number,
  serverPids: readonly number[] = [],
): Contestant {
  const generator = bench.processes.generator();
  return {
    name,
    serverPids,
    run: (ms) => generator.run({ kind: 'loop', endpoint, operation, inFlight: 1, pauseMs, ms }),
  };
}
