import { connect } from '@taskmaster/client';
import { type Contestant, compete } from '../contest.ts';
import { fill, fillDeep } from '../contestants.ts';
import type { Via } from '../load/jobs.ts';
import { atLeast, type Measurement, versus } from '../measurement.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

const SHALLOW_TASKS = 1_000;
const LEAST_RATIO = 0.8;
const DEEP = 'deep';
const SHALLOW = 'shallow';

interface DepthLoad {
  readonly variant: string;
  readonly kind: 'enqueue' | 'lease-complete';
  readonly via: Via;
  readonly batch: number;
  readonly inFlight: number;
}

const single = { batch: 1, inFlight: 500 } as const;
const batches = { batch: 50, inFlight: 10 } as const;

const loads: readonly DepthLoad[] = [
  { variant: 'enqueue-single-unary', kind: 'enqueue', via: 'unary', ...single },
  { variant: 'enqueue-single-client', kind: 'enqueue', via: 'client', ...single },
  { variant: 'lease-complete-unary', kind: 'lease-complete', via: 'unary', ...single },
  { variant: 'lease-complete-client', kind: 'lease-complete', via: 'client', ...single },
  { variant: 'enqueue-50', kind: 'enqueue', via: 'unary', ...batches },
  { variant: 'lease-complete-50', kind: 'lease-complete', via: 'unary', ...batches },
];

/**
 * The same loads on two queues of one node, a deep and a shallow one, in turn. Leased tasks are replaced as they are
 * completed, in the same update, so that both queues keep their depth.
 */
export const depth: Row = {
  name: 'depth-1m',
  about: 'single and 50 rows with 1 M tasks queued against 1 k',
  async *run(bench) {
    const node = await bench.processes.node();
    const generator = bench.processes.generator();
    const deepTasks = await fillDeep(bench, generator, node, DEEP);
    for (const load of loads) yield await compare(bench, node, generator, load, deepTasks);
    await node.stop();
  },
};

async function compare(
  bench: Bench,
  node: ServerProcess,
  generator: LoadGenerator,
  load: DepthLoad,
  deepTasks: number,
): Promise<Measurement> {
  const [deep, shallow] = await compete(bench, [
    onDepth(generator, node, load, DEEP),
    onDepth(generator, node, load, SHALLOW),
  ]);
  const line = { row: depth.name, variant: load.variant, load: bench.load };
  const more = { deep_tasks: deepTasks, shallow_tasks: SHALLOW_TASKS };
  return versus({ ...line, more }, deep, shallow, (ratio) => atLeast('ratio', ratio, LEAST_RATIO));
}

/** One generator for both depths: what it has compiled and connected is the same for both. */
function onDepth(generator: LoadGenerator, node: ServerProcess, load: DepthLoad, queue: string): Contestant {
  const { kind, via, batch, inFlight } = load;
  const operation = kind === 'enqueue' ? { kind, via, queue, batch } : { kind, via, queue, batch, replace: true };
  return {
    name: queue,
    serverPids: [node.pid],
    profiled: true,
    async prepare() {
      if (queue !== SHALLOW) return;
      await using client = await connect(node.endpoint);
      await client.queue(queue).delete();
      await fill(generator, node, queue, SHALLOW_TASKS);
    },
    run: (ms) => generator.run({ kind: 'loop', endpoint: node.endpoint, operation, inFlight, ms }),
  };
}
