import { compete } from '../contest.ts';
import { fill } from '../contestants.ts';
import { round } from '../machine.ts';
import { atMost, latencyFields, latencyRatioOf, type Measurement, median } from '../measurement.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';
import { startAndServe } from './restart.ts';

const TAKEN_TASKS = 5_000_000;
/** Number of tasks that are left in the queue, and in a fresh one: enough for all runs. */
const LEFT_TASKS = 250_000;
const QUICK_PART = 0.25;
const MOST_RATIO = 1.2;
const TAKE_BATCH = 500;
const TAKE_IN_FLIGHT = 8;
const TAKE_MS = 10 * 60_000;
const STEPS = 20;
const TAKEN = 'taken';
const FRESH = 'fresh';
const OTHER = 'other';

/** Leases at the head of a queue, behind the tombstones of taken tasks. */
export const takenHead: Row = {
  name: 'B10',
  about:
    'lease latency at the head of a queue from which 5 M tasks were just taken, against a fresh one (6 GB of disk)',
  when: 'all',
  async *run(bench) {
    const { processes, scale } = bench;
    const taken = scale.tasks ?? TAKEN_TASKS;
    const left = Math.min(LEFT_TASKS, Math.ceil(taken * QUICK_PART));
    const dir = await processes.directory();
    const node = await processes.node(dir);
    const generator = processes.generator();
    await inSteps(bench, 'filling', taken + left, (tasks) => fill(generator, node, TAKEN, tasks));
    await fill(generator, node, FRESH, left);
    await fill(generator, node, OTHER, left);
    await inSteps(bench, 'taking', taken, (tasks) => take(generator, node, tasks));
    yield await warm(bench, generator, node, taken);
    yield await restarted(bench, node, dir, taken);
  },
};

async function inSteps(
  bench: Bench,
  doing: string,
  all: number,
  step: (tasks: number) => Promise<number>,
): Promise<void> {
  for (let done = 0; done < all; ) {
    bench.progress(`${doing}: ${done.toLocaleString('en')} of ${all.toLocaleString('en')} tasks`);
    done += await step(Math.min(all - done, Math.ceil(all / STEPS)));
  }
}

async function take(generator: LoadGenerator, { endpoint }: ServerProcess, maxTasks: number): Promise<number> {
  const { tasks } = await generator.run({
    kind: 'loop',
    endpoint,
    operation: { kind: 'lease-complete', via: 'unary', queue: TAKEN, batch: TAKE_BATCH, replace: false },
    inFlight: TAKE_IN_FLIGHT,
    ms: TAKE_MS,
    maxTasks,
  });
  return tasks;
}

/** One lease after the other, with the head in memory. */
async function warm(bench: Bench, generator: LoadGenerator, node: ServerProcess, taken: number): Promise<Measurement> {
  const { endpoint } = node;
  const leasing = (queue: string) => ({
    name: queue,
    serverPids: [node.pid],
    run: (ms: number) =>
      generator.run({ kind: 'loop', endpoint, operation: { kind: 'lease', queue, batch: 1 }, inFlight: 1, ms }),
  });
  const [behind, fresh] = await compete(bench, [leasing(TAKEN), leasing(FRESH)]);
  const ratio = latencyRatioOf(behind, fresh);
  return {
    row: takenHead.name,
    variant: 'lease',
    tasksPerS: behind.tasksPerS,
    p50Ms: behind.p50Ms,
    p99Ms: behind.p99Ms,
    baseline: fresh.name,
    baselinePerS: fresh.tasksPerS,
    ratio,
    target: atMost('ratio', ratio, MOST_RATIO),
    load: bench.load,
    more: { ...latencyFields('baseline_', fresh), taken_tasks: taken },
  };
}

/** The first lease of each queue after a start, with empty memory. A lease of another queue comes before. */
async function restarted(bench: Bench, node: ServerProcess, dir: string, taken: number): Promise<Measurement> {
  const { processes, scale } = bench;
  const behind: number[] = [];
  const fresh: number[] = [];
  let running = node;
  const generator = processes.generator();
  for (let start = 0; start < 2 * scale.repetitions; start++) {
    bench.progress(`start ${start + 1}`);
    await running.kill();
    running = (await startAndServe(processes, dir, OTHER)).node;
    const order = start % 2 === 0 ? [TAKEN, FRESH] : [FRESH, TAKEN];
    await firstLease(generator, running, OTHER);
    for (const queue of order) (queue === TAKEN ? behind : fresh).push(await firstLease(generator, running, queue));
  }
  await running.stop();
  const p50Ms = median(behind);
  const ratio = p50Ms / median(fresh);
  return {
    row: takenHead.name,
    variant: 'first lease after a start',
    p50Ms,
    baseline: FRESH,
    ratio,
    target: atMost('ratio', ratio, MOST_RATIO),
    load: bench.load,
    more: {
      baseline_p50_ms: round(median(fresh), 3),
      taken_tasks: taken,
      all_ms: behind.map((ms) => round(ms, 3)),
      baseline_all_ms: fresh.map((ms) => round(ms, 3)),
    },
  };
}

async function firstLease(generator: LoadGenerator, { endpoint }: ServerProcess, queue: string): Promise<number> {
  const operation = { kind: 'lease', queue, batch: 1 } as const;
  const { p50Ms = Number.NaN } = await generator.run({
    kind: 'loop',
    endpoint,
    operation,
    inFlight: 1,
    ms: TAKE_MS,
    maxTasks: 1,
  });
  return p50Ms;
}
