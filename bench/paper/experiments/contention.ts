import type { LoadGenerator, ServerProcess } from '../../processes.ts';
import { type Experiment, type Lab, load, newGroups, newProcesses, PAPER_CACHE, pointOf, sweep } from '../lab.ts';
import type { Locks } from '../load/workers-load.ts';
import type { Point } from '../result.ts';

const WORKERS = 10;
const THREADS = 50;

const PROBABILITIES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1];
const QUICK_PROBABILITIES = [0.001, 1];
/** A probability so small that updates in flight do not collide. */
export const NO_CONTENTION = 1e-6;

/** The paper's consistency strategies by their locks, and the strategy of the node. */
export const strategies: Readonly<Record<Locks, string>> = {
  all: 'strictly sequential',
  queue: 'partially causal',
  task: 'causal, locks held until durable',
  none: 'this node, no locks held',
};

/** Figure 3: latency of updates that collide, with several strategies of consistency. */
export const contention: Experiment = {
  figure: 'figure-3',
  async *run(lab) {
    await using processes = newProcesses(lab);
    const generator = processes.generator();
    const node = await processes.node(undefined, [PAPER_CACHE]);
    // Measured twice: the first time warms up the compiler.
    await measure(lab, generator, node, 'none', NO_CONTENTION);
    yield await measure(lab, generator, node, 'none', NO_CONTENTION);
    for (const probability of sweep(lab, PROBABILITIES, QUICK_PROBABILITIES)) {
      for (const locks of ['all', 'queue', 'task', 'none'] as const) {
        yield await measure(lab, generator, node, locks, probability);
      }
    }
  },
};

async function measure(
  lab: Lab,
  generator: LoadGenerator,
  { endpoint }: ServerProcess,
  locks: Locks,
  probability: number,
): Promise<Point> {
  lab.progress(`${strategies[locks]}, collisions with a probability of ${probability}`);
  const operation = { kind: 'replace', tasks: Math.round(1 / probability), locks } as const;
  const job = load(lab, { endpoint, groups: newGroups(WORKERS), threads: THREADS, operation });
  return pointOf('figure-3', locks, probability, [await generator.run(job)]);
}
