import { cacheFlag, type Experiment, fill, type Lab, load, newGroups, newProcesses, pointOf, sweep } from '../lab.ts';
import { perSecond, watchCounters } from '../node-counters.ts';
import type { Point } from '../result.ts';

const LOADERS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const QUICK_LOADERS = [0, 1, 10];
const LOADER_THREADS = 50;
const LOADER_QUEUES = 10;
const LOADER_BATCH = 50;
/** The paper's 10 MB. */
const CACHE = cacheFlag(10 * 2 ** 20);
/** A longer run, because refills are rare. */
const RUN_FACTOR = 1.5;
/** More tasks per second than a single thread can process, and several times the size of the cache. */
const LONE_PER_S = 2_500;
const LEAST_LONE_TASKS = 30_000;

/** Figure 6: a lone worker with one thread beside processes that enqueue at full speed. */
export const isolation: Experiment = {
  figure: 'figure-6',
  async *run(lab) {
    for (const loaders of sweep(lab, LOADERS, QUICK_LOADERS)) yield await measure(lab, loaders);
  },
};

/** Measures on a new node each time: otherwise the node would delete rows of earlier loaders during a run. */
async function measure(lab: Lab, loaders: number): Promise<Point> {
  await using processes = newProcesses(lab);
  const [lone, many] = [processes.generator(), processes.generator()];
  const dir = await processes.directory();
  const filling = await processes.node(dir);
  const groups = newGroups(1);
  const warmUpMs = lab.scale.warmUpMs * 2;
  const ms = warmUpMs + lab.scale.runMs * RUN_FACTOR;
  lab.progress('filling the lone worker’s queue');
  await fill(lone, { endpoint: filling.endpoint, groups }, Math.max(LEAST_LONE_TASKS, (LONE_PER_S * ms) / 1000));
  await filling.stop();
  const node = await processes.node(dir, [CACHE]);
  const { endpoint } = node;
  lab.progress(`${loaders} loaders`);
  const times = { warmUpMs, ms };
  const leasing = lone.run(load(lab, { endpoint, groups, threads: 1, operation: { kind: 'lease-dequeue' }, ...times }));
  const beside = many.run(
    load(lab, {
      endpoint,
      groups: newGroups(loaders),
      threads: LOADER_THREADS,
      queues: LOADER_QUEUES,
      batch: LOADER_BATCH,
      operation: { kind: 'enqueue', pids: 'random' },
      ...times,
    }),
  );
  const [result, { tasksPerS: besideTasksPerS }, samples] = await Promise.all([
    leasing,
    beside,
    watchCounters(node, warmUpMs, ms - warmUpMs, leasing),
  ]);
  const point = pointOf('figure-6', 'lone worker', loaders, [result]);
  // Only the lone worker leases, so all refills are those of its queue.
  const [refillsPerS = 0] = perSecond(samples, ({ refills }) => refills);
  return { ...point, refillsPerMin: refillsPerS * 60, besideTasksPerS };
}
