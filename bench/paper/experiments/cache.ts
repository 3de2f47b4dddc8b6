import type { LoadGenerator, ServerProcess } from '../../processes.ts';
import {
  cacheFlag,
  type Experiment,
  fill,
  type Lab,
  load,
  newGroups,
  newProcesses,
  pointOf,
  sweep,
  WORKERS,
} from '../lab.ts';
import type { WorkersLoad } from '../load/workers-load.ts';
import { perSecond, watchCounters } from '../node-counters.ts';
import type { Point } from '../result.ts';
import { spreadOf } from '../spread.ts';

const MIB = 2 ** 20;
const SIZES_MIB = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const QUICK_SIZES_MIB = [1, 64];

/** Queues of each worker: 500 together, with tasks of 100 bytes that are leased 50 at a time. */
const QUEUES = 10;
const TASK_BYTES = 100;
const BATCH = 50;
/** A longer warm-up, because cache and compiled code are cold. */
const WARM_UP_FACTOR = 2;
const SAMPLE_MS = 250;
/** More tasks per second than two cores can lease and dequeue. */
const EXPECTED_PER_S = 100_000;
/** Least number of tasks: even in a quick run, queues must be longer than one refill. */
const LEAST_TASKS = 150_000;

/** Figure 4: reads of the store by the size of the cache. */
export const cache: Experiment = {
  figure: 'figure-4',
  async *run(lab) {
    await using processes = newProcesses(lab);
    const generator = processes.generator();
    const dir = await processes.directory();
    const shape = { groups: newGroups(WORKERS), queues: QUEUES, taskBytes: TASK_BYTES };
    let left = 0;
    for (const mib of sweep(lab, SIZES_MIB, QUICK_SIZES_MIB)) {
      lab.progress('filling 500 queues');
      const filling = await processes.node(dir);
      const expected = (EXPECTED_PER_S * (lab.scale.warmUpMs * WARM_UP_FACTOR + lab.scale.runMs)) / 1000;
      const tasks = Math.max(LEAST_TASKS, expected);
      await fill(generator, { endpoint: filling.endpoint, ...shape }, tasks - left);
      await filling.stop();
      // A new process, so that memory is empty.
      const node = await processes.node(dir, [cacheFlag(mib * MIB)]);
      const { point, taken } = await measure(lab, generator, node, shape, mib);
      yield point;
      left = tasks - taken;
      await node.stop();
    }
  },
};

async function measure(
  lab: Lab,
  generator: LoadGenerator,
  node: ServerProcess,
  shape: Pick<WorkersLoad, 'groups' | 'queues' | 'taskBytes'>,
  mib: number,
): Promise<{ readonly point: Point; readonly taken: number }> {
  lab.progress(`cache of ${mib} MiB`);
  const operation = { kind: 'lease-dequeue' } as const;
  const warmUpMs = lab.scale.warmUpMs * WARM_UP_FACTOR;
  const ms = warmUpMs + lab.scale.runMs;
  const job = load(lab, { endpoint: node.endpoint, ...shape, batch: BATCH, operation, warmUpMs, ms });
  const running = generator.run(job);
  const [result, samples] = await Promise.all([running, watchCounters(node, warmUpMs, SAMPLE_MS, running)]);
  const point = pointOf('figure-4', 'reads', mib, [result]);
  const reads = perSecond(samples, ({ refills, coldReads }) => refills + coldReads);
  const mean = reads.reduce((sum, value) => sum + value, 0) / reads.length;
  const figures = { readsPerS: spreadOf(reads), readsPer1000Tasks: (mean * 1000) / point.tasksPerS.mean };
  return { point: { ...point, ...figures }, taken: result.allTasks };
}
