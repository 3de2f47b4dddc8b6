import { type Contestant, compete } from '../contest.ts';
import { atMost, type Figures, latencyFields, latencyRatioOf, type Measurement } from '../measurement.ts';
import type { ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

/** Ten workers with 50 threads each, as in the paper. */
const IN_FLIGHT = 500;
const QUEUES = 10;
const PROBABILITIES = [0.001, 0.01, 0.1, 0.5, 1] as const;
const FREE = 'contention-free';
const SEQUENTIAL = 'sequential';
/** Limit of the ratio at the smallest probability. */
const MOST_OVER_FREE = 1.1;

/** The paper's figure 3: latency of updates that may write the same task. */
export const contention: Row = {
  name: 'B13',
  about: 'updates whose (queue, PID) collide with probability 0.001 to 1, against none that do and one after the other',
  when: 'all',
  async *run(bench) {
    const node = await bench.processes.node();
    const contended = PROBABILITIES.map((collide) => updates(bench, node, `p=${collide}`, { queues: QUEUES, collide }));
    const [free, sequential, ...others] = await compete(bench, [
      updates(bench, node, FREE, { queues: IN_FLIGHT, collide: 0 }),
      updates(bench, node, SEQUENTIAL, { queues: QUEUES, collide: 0, sequential: true }),
      ...contended,
    ]);
    await node.stop();
    if (free === undefined || sequential === undefined) return;
    for (const [index, figures] of others.entries()) {
      yield line(bench, figures, free, index === 0 ? MOST_OVER_FREE : undefined);
    }
    for (const figures of others) yield line(bench, figures, sequential, 1);
  },
};

interface Updates {
  readonly queues: number;
  readonly collide: number;
  readonly sequential?: boolean;
}

function updates(
  { processes }: Bench,
  { pid, endpoint }: ServerProcess,
  name: string,
  { queues, collide, sequential = false }: Updates,
): Contestant {
  const generator = processes.generator();
  let run = 0;
  return {
    name,
    serverPids: [pid],
    profiled: collide > 0,
    run(ms) {
      const operation = { kind: 'contended', queue: `${name}-${run++}`, queues, collide, sequential } as const;
      return generator.run({ kind: 'loop', endpoint, operation, inFlight: IN_FLIGHT, ms });
    },
  };
}

function line({ load }: Bench, figures: Figures, baseline: Figures, most: number | undefined): Measurement {
  const ratio = latencyRatioOf(figures, baseline);
  return {
    row: contention.name,
    variant: `${figures.name} to ${baseline.name}`,
    tasksPerS: figures.tasksPerS,
    p50Ms: figures.p50Ms,
    p99Ms: figures.p99Ms,
    baseline: baseline.name,
    baselinePerS: baseline.tasksPerS,
    ratio,
    target: most === undefined ? undefined : atMost('ratio', ratio, most),
    load,
    more: latencyFields('baseline_', baseline),
  };
}
