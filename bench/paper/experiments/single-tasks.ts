import {
  type Experiment,
  fill,
  type Lab,
  load,
  newGroups,
  newProcesses,
  nodeWithLongQueues,
  PAPER_CACHE,
  pointOf,
  tasksFor,
  WORKERS,
} from '../lab.ts';
import type { WorkersLoad } from '../load/workers-load.ts';
import type { Point } from '../result.ts';

/** Expected rate, for which queues are filled before the first run, in tasks per second. */
const EXPECTED_PER_S = { unary: 8_000, client: 60_000 } as const;

const variants = [
  { series: 'enqueue', operation: { kind: 'enqueue', pids: 'random' }, long: true },
  { series: 'enqueue, short queues', operation: { kind: 'enqueue', pids: 'random' }, long: false },
  { series: 'FIFO enqueue', operation: { kind: 'enqueue', pids: 'assigned' }, long: false },
  { series: 'lease + dequeue', operation: { kind: 'lease-dequeue' }, long: false },
] as const;

/** Table 1: single tasks through one node, with one call each as in the paper, and through the client, which joins calls. */
export const singleTasks: Experiment = {
  figure: 'table-1',
  async *run(lab) {
    for (const via of ['unary', 'client'] as const) {
      for (const variant of variants) {
        yield await measure(lab, via, variant);
      }
    }
  },
};

async function measure(
  lab: Lab,
  via: WorkersLoad['via'],
  { series, operation, long }: (typeof variants)[number],
): Promise<Point> {
  await using processes = newProcesses(lab);
  const generator = processes.generator();
  const groups = newGroups(WORKERS);
  const node = long
    ? await nodeWithLongQueues(lab, processes, generator, { groups, queues: 1 })
    : await processes.node(undefined, [PAPER_CACHE]);
  const { endpoint } = node;
  const job = load(lab, { endpoint, via, groups, operation });
  if (operation.kind === 'lease-dequeue') {
    lab.progress('filling queues');
    await fill(generator, { endpoint, groups }, tasksFor(job, EXPECTED_PER_S[via]));
  }
  lab.progress(`${series}, ${via}`);
  return pointOf('table-1', `${via}: ${series}`, 0, [await generator.run(job)]);
}
