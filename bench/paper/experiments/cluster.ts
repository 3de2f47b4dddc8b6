import { Cluster } from '../../cluster.ts';
import { cpuTimeOfAll } from '../../machine.ts';
import type { LoadGenerator } from '../../processes.ts';
import {
  type Experiment,
  fill,
  type Lab,
  LONG_QUEUES_TASKS,
  load,
  newProcesses,
  PAPER_CACHE,
  pointOf,
  sweep,
  WORKERS,
} from '../lab.ts';
import type { WorkersLoad, WorkersOperation } from '../load/workers-load.ts';
import type { Point } from '../result.ts';

const SIZES = [1, 2, 3, 4];
const QUICK_SIZES = [1, 2];
/** As in the paper. */
const BATCH = 50;
const QUEUES = 10;
/** More tasks per second than two cores can lease and dequeue, over all nodes. */
const EXPECTED_PER_S = 80_000;

const operations: Readonly<Record<string, WorkersOperation>> = {
  enqueue: { kind: 'enqueue', pids: 'random' },
  'FIFO enqueue': { kind: 'enqueue', pids: 'assigned' },
  'lease + dequeue': { kind: 'lease-dequeue' },
};

/** A node, and the load generator of the workers whose groups it holds. */
interface Site {
  readonly name: string;
  readonly generator: LoadGenerator;
  /** Groups of the workers, by operation. */
  readonly groups: Readonly<Record<string, readonly string[]>>;
}

/** Figure 7: nodes of one cluster, each with its own workers. */
export const cluster: Experiment = {
  figure: 'figure-7',
  async *run(lab) {
    for (const size of sweep(lab, SIZES, QUICK_SIZES)) yield* measureSize(lab, size);
  },
};

async function* measureSize(lab: Lab, size: number): AsyncGenerator<Point> {
  await using processes = newProcesses(lab);
  lab.progress(`${size} nodes: starting`);
  const nodes = await Cluster.start(processes, size, [PAPER_CACHE]);
  const names = nodes.running.map(({ name }) => name);
  const sites = await Promise.all(
    names.map(async (name): Promise<Site> => {
      const kinds = Object.keys(operations);
      const all = await nodes.groupsOf(name, WORKERS * kinds.length);
      const groups = kinds.map((kind, i) => [kind, all.slice(i * WORKERS, (i + 1) * WORKERS)] as const);
      return { name, generator: processes.generator(), groups: Object.fromEntries(groups) };
    }),
  );
  lab.progress(`${size} nodes: filling queues beyond what they keep in memory`);
  const longTasks = (lab.scale.quick ? LONG_QUEUES_TASKS / 10 : LONG_QUEUES_TASKS) / size;
  await fillAll(nodes, sites, 'enqueue', longTasks);
  for (const name of names) {
    await nodes.node(name).stop();
    await nodes.restart(name, [PAPER_CACHE]);
  }
  await nodes.settled();
  for (const [series, operation] of Object.entries(operations)) {
    const { warmUpMs, runMs } = lab.scale;
    if (operation.kind === 'lease-dequeue') {
      lab.progress(`${size} nodes, ${series}: filling queues`);
      await fillAll(nodes, sites, series, (EXPECTED_PER_S * (warmUpMs + runMs)) / 1000 / size);
    }
    lab.progress(`${size} nodes, ${series}`);
    yield await measure(lab, nodes, sites, series, operation);
  }
  await nodes.stop();
}

async function measure(
  lab: Lab,
  nodes: Cluster,
  sites: readonly Site[],
  series: string,
  operation: WorkersOperation,
): Promise<Point> {
  const before = cpuTimeOfAll(nodes.pids)?.all;
  const results = await Promise.all(
    sites.map((site) => site.generator.run(load(lab, { ...shapeOf(nodes, site, series), batch: BATCH, operation }))),
  );
  const after = cpuTimeOfAll(nodes.pids)?.all;
  const allTasks = results.reduce((sum, one) => sum + one.allTasks, 0);
  return {
    ...pointOf('figure-7', series, sites.length, results),
    ...(before !== undefined && after !== undefined && { serverCpuUs: ((after - before) * 1000) / allTasks }),
  };
}

/** Enqueues `tasksEach` tasks to the queues of each node. */
async function fillAll(nodes: Cluster, sites: readonly Site[], series: string, tasksEach: number): Promise<void> {
  await Promise.all(sites.map((site) => fill(site.generator, shapeOf(nodes, site, series), tasksEach)));
}

function shapeOf(
  nodes: Cluster,
  { name, groups }: Site,
  series: string,
): Pick<WorkersLoad, 'endpoint' | 'groups' | 'queues'> {
  return { endpoint: nodes.node(name).endpoint, groups: groups[series] ?? [], queues: QUEUES };
}
