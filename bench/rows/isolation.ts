import { setTimeout as delay } from 'node:timers/promises';
import { type Contestant, compete } from '../contest.ts';
import { fill } from '../contestants.ts';
import { round } from '../machine.ts';
import {
  atLeast,
  atMost,
  type LoadResult,
  latencyFields,
  type Measurement,
  median,
  ratioOf,
  versus,
} from '../measurement.ts';
import { metricOf } from '../metrics.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

const CACHE = '--engine-cache-bytes=10MiB';
/** Number of loaders. Each has its own connection. */
const LOADERS = 10;
const CALLS_EACH = 50;
const UPDATE_TASKS = 50;
const UPDATE_QUEUES = 10;
/** More tasks than the lone worker can process in all runs. */
const LONE_TASKS = 200_000;
const LONE = 'lone';
const LEAST_LONE = 0.2;
const LEAST_TOTAL = 0.9;
/** Limit of the ratio of refills. They are few, so they vary by chance. */
const MOST_REFILLS = 1.1;
/** Time that loaders work before and after the measurement of the lone worker, in ms. */
const LEAD_MS = 300;
const REFILLS = 'taskmaster_cache_refills_total';

/** The paper, 6.2: the rate of one worker on a node that others keep busy. */
export const isolation: Row = {
  name: 'B12',
  about:
    '10 loaders with 50 calls in flight, 50 tasks to 10 queues each, against one worker on its own queue; cache 10 MiB',
  when: 'all',
  async *run(bench) {
    const { processes, scale } = bench;
    const node = await processes.node(undefined, [CACHE]);
    const loaders = processes.generator();
    const lone = processes.generator();
    bench.progress('filling the queue of the lone worker');
    await fill(lone, node, LONE, scale.tasks ?? LONE_TASKS);
    const alone = new LoneRuns(node, lone);
    const beside = new LoneRuns(node, lone);
    const totals: number[] = [];
    const [unloaded, loaded, load] = await compete(bench, [
      { name: 'alone', serverPids: [node.pid], run: (ms) => alone.run(ms) },
      {
        name: 'beside loaders',
        serverPids: [node.pid],
        profiled: true,
        async run(ms) {
          const loading = loadFor(loaders, node, ms + 2 * LEAD_MS);
          await delay(LEAD_MS);
          const result = await beside.run(ms);
          const { tasks, elapsedMs } = await loading;
          totals.push((tasks * 1000) / elapsedMs + (result.tasks * 1000) / result.elapsedMs);
          return result;
        },
      },
      loadersAlone(loaders, node),
    ]);
    await node.stop();
    const line = { row: isolation.name, load: bench.load };
    yield versus({ ...line, variant: 'lone worker' }, loaded, unloaded, (ratio) => atLeast('ratio', ratio, LEAST_LONE));
    yield refillLine(bench, alone, beside);
    const all = totals.slice(-bench.scale.repetitions);
    const total = { ...load, name: 'loaders and worker', all, tasksPerS: median(all) };
    const ratio = ratioOf(total, load);
    yield {
      ...line,
      variant: 'all tasks',
      tasksPerS: total.tasksPerS,
      baseline: load.name,
      baselinePerS: load.tasksPerS,
      ratio,
      target: atLeast('ratio', ratio, LEAST_TOTAL),
      more: { ...latencyFields('baseline_', load), all_per_s: all.map(Math.round) },
    };
  },
};

function loadFor(generator: LoadGenerator, { endpoint }: ServerProcess, ms: number): Promise<LoadResult> {
  return generator.run({
    kind: 'loop',
    endpoint,
    operation: {
      kind: 'enqueue-across',
      queue: 'load',
      queues: UPDATE_QUEUES,
      batch: UPDATE_TASKS,
      callers: LOADERS,
    },
    inFlight: LOADERS * CALLS_EACH,
    ms,
  });
}

function loadersAlone(generator: LoadGenerator, node: ServerProcess): Contestant {
  return { name: 'loaders alone', serverPids: [node.pid], run: (ms) => loadFor(generator, node, ms) };
}

/** Runs of the lone worker, one task after the other, with their disk reads: no other queue is read. */
class LoneRuns {
  readonly #node: ServerProcess;
  readonly #generator: LoadGenerator;
  readonly #refills: { readonly perMin: number; readonly per1000: number }[] = [];

  constructor(node: ServerProcess, generator: LoadGenerator) {
    this.#node = node;
    this.#generator = generator;
  }

  get refillsPerMin(): number {
    return mean(this.#refills.map(({ perMin }) => perMin));
  }

  get refillsPer1000(): number {
    return mean(this.#refills.map(({ per1000 }) => per1000));
  }

  async run(ms: number): Promise<LoadResult> {
    const before = await metricOf(this.#node, REFILLS);
    const result = await this.#generator.run({
      kind: 'loop',
      endpoint: this.#node.endpoint,
      operation: { kind: 'lease-complete', via: 'client', queue: LONE, batch: 1, replace: false },
      inFlight: 1,
      ms,
    });
    const refills = (await metricOf(this.#node, REFILLS)) - before;
    this.#refills.push({ perMin: (refills * 60_000) / result.elapsedMs, per1000: (refills * 1000) / result.tasks });
    return result;
  }
}

/** The mean over all runs, including warm-up runs, because each run has few refills. */
function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function refillLine({ load }: Bench, alone: LoneRuns, beside: LoneRuns): Measurement {
  const ratio = beside.refillsPerMin / Math.max(alone.refillsPerMin, 1);
  return {
    row: isolation.name,
    variant: 'refills of its queue',
    baseline: 'alone',
    ratio,
    target: atMost('ratio', ratio, MOST_REFILLS),
    load,
    more: {
      refills_per_min: round(beside.refillsPerMin, 1),
      baseline_refills_per_min: round(alone.refillsPerMin, 1),
      refills_per_1000_tasks: round(beside.refillsPer1000, 2),
      baseline_refills_per_1000_tasks: round(alone.refillsPer1000, 2),
    },
  };
}
