import type { LoadGenerator } from '../../processes.ts';
import {
  deleteQueues,
  type Experiment,
  fill,
  type Lab,
  load,
  newGroups,
  newProcesses,
  nodeWithLongQueues,
  PAPER_CACHE,
  pointOf,
  sweep,
  TASK_BYTES,
  tasksFor,
  threadsFor,
  WORKERS,
} from '../lab.ts';
import type { Point } from '../result.ts';

const BATCHES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
const QUICK_BATCHES = [1, 50, 1_000];
/** Number of queues of each worker. */
const QUEUES = 10;

/** Expected rate of the first run, for which queues are filled, and limit of the increase from one batch size to the next. */
const FIRST_PER_S = 8_000;
const GROWTH = 2;
/** More tasks per second than two cores can lease and dequeue. */
const MOST_PER_S = 120_000;
const SETTLE_MS = 500;

/** Figure 5: throughput and latency by the number of tasks in a call. */
export const bulk: Experiment = {
  figure: 'figure-5',
  async *run(lab) {
    yield* enqueues(lab);
    yield* fifoEnqueues(lab);
    yield* leases(lab);
  },
};

function job(endpoint: string, batch: number, groups: readonly string[]) {
  const threads = threadsFor(batch, TASK_BYTES);
  return { endpoint, batch, groups, threads, queues: QUEUES };
}

/** Enqueues always into the same long queues, so that every PID must be looked up. */
async function* enqueues(lab: Lab): AsyncGenerator<Point> {
  await using processes = newProcesses(lab);
  const generator = processes.generator();
  const groups = newGroups(WORKERS);
  const { endpoint } = await nodeWithLongQueues(lab, processes, generator, { groups, queues: QUEUES });
  const operation = { kind: 'enqueue', pids: 'random' } as const;
  for (const batch of sweep(lab, BATCHES, QUICK_BATCHES)) {
    lab.progress(`enqueue, ${batch} tasks a call`);
    const result = await generator.run(load(lab, { ...job(endpoint, batch, groups), operation }));
    yield pointOf('figure-5', 'enqueue', batch, [result]);
  }
}

async function* fifoEnqueues(lab: Lab): AsyncGenerator<Point> {
  await using processes = newProcesses(lab);
  const generator = processes.generator();
  const { endpoint } = await processes.node(undefined, [PAPER_CACHE]);
  const operation = { kind: 'enqueue', pids: 'assigned' } as const;
  for (const batch of sweep(lab, BATCHES, QUICK_BATCHES)) {
    lab.progress(`FIFO enqueue, ${batch} tasks a call`);
    const of = job(endpoint, batch, newGroups(WORKERS));
    const result = await generator.run(load(lab, { ...of, operation }));
    await deleteQueues(endpoint, of, SETTLE_MS);
    yield pointOf('figure-5', 'FIFO enqueue', batch, [result]);
  }
}

async function* leases(lab: Lab): AsyncGenerator<Point> {
  await using processes = newProcesses(lab);
  const generator = processes.generator();
  const { endpoint } = await processes.node(undefined, [PAPER_CACHE]);
  let expected = FIRST_PER_S;
  for (const batch of sweep(lab, BATCHES, QUICK_BATCHES)) {
    const point = await lease(lab, generator, endpoint, batch, expected);
    expected = Math.min(MOST_PER_S, point.tasksPerS.mean * (lab.scale.quick ? 2 * GROWTH : GROWTH));
    yield point;
  }
}

async function lease(
  lab: Lab,
  generator: LoadGenerator,
  endpoint: string,
  batch: number,
  expectedPerS: number,
): Promise<Point> {
  const of = job(endpoint, batch, newGroups(WORKERS));
  const run = load(lab, { ...of, operation: { kind: 'lease-dequeue' } });
  lab.progress(`lease + dequeue, ${batch} tasks a call: filling queues`);
  await fill(generator, of, tasksFor(run, expectedPerS));
  lab.progress(`lease + dequeue, ${batch} tasks a call`);
  const result = await generator.run(run);
  await deleteQueues(endpoint, of, SETTLE_MS);
  return pointOf('figure-5', 'lease + dequeue', batch, [result]);
}
