import { setTimeout as delay } from 'node:timers/promises';
import { type Contestant, compete } from '../contest.ts';
import { deleteQueues } from '../contestants.ts';
import type { Operation } from '../load/jobs.ts';
import { round } from '../machine.ts';
import {
  atLeast,
  atMost,
  type Figures,
  latencyFields,
  latencyRatioOf,
  type Measurement,
  ratioOf,
} from '../measurement.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

const SIZES = [
  { name: '100 B', bytes: 100 },
  { name: '1 KB', bytes: 1_000 },
  { name: '10 KB', bytes: 10_000 },
  { name: '1 MB', bytes: 1_000_000 },
] as const;
const LARGE_BYTES = 1_000_000;
const MOST_IN_FLIGHT = 500;
/** Limit of the payload bytes of all calls in flight. */
const IN_FLIGHT_BYTES = 16_000_000;
/** Number of tasks for each call in flight that are queued before leases begin. */
const QUEUED_FACTOR = 2;
/** Number of concurrent calls of others, while `LARGE_CALLERS` callers send large tasks. */
const OTHERS_IN_FLIGHT = 10;
const LARGE_CALLERS = [1, 4] as const;
const MOST_P99_RATIO = 3;
/** Time that large tasks are sent before and after the measurement of others, in ms. */
const LEAD_MS = 300;

/** Bytes per second by task size, and the effect of large tasks on others. */
export const taskSizes: Row = {
  name: 'B16',
  about: 'tasks of 100 B, 1 KB, 10 KB and 1 MB: bytes a second; p99 of others while tasks of 1 MB come and go',
  when: 'all',
  async *run(bench) {
    const node = await bench.processes.node();
    for (const kind of ['enqueue', 'lease-complete'] as const) yield* bySize(bench, node, kind);
    yield* besideLarge(bench, node);
    await node.stop();
  },
};

async function* bySize(
  bench: Bench,
  node: ServerProcess,
  kind: 'enqueue' | 'lease-complete',
): AsyncGenerator<Measurement> {
  const generator = bench.processes.generator();
  const all = await compete(
    bench,
    SIZES.map(({ name, bytes }) => ofSize(generator, node, kind, name, bytes)),
  );
  await generator.stop();
  for (const [index, figures] of all.entries()) {
    const bytes = SIZES[index]?.bytes ?? 0;
    const smaller = all[index - 1];
    const factor = bytes / (SIZES[index - 1]?.bytes ?? bytes);
    const ratio = smaller && ratioOf(figures, smaller) * factor;
    yield {
      row: taskSizes.name,
      variant: `${kind} ${figures.name}`,
      tasksPerS: figures.tasksPerS,
      p50Ms: figures.p50Ms,
      p99Ms: figures.p99Ms,
      baseline: smaller?.name,
      baselinePerS: smaller?.tasksPerS,
      ratio,
      target: ratio === undefined ? undefined : atLeast('ratio', ratio, 1),
      load: bench.load,
      more: {
        mb_per_s: round((figures.tasksPerS * bytes) / 1e6, 1),
        ...(smaller && { baseline_mb_per_s: round((smaller.tasksPerS * bytes) / factor / 1e6, 1) }),
        in_flight: inFlightOf(bytes),
      },
    };
  }
}

function inFlightOf(bytes: number): number {
  return Math.min(MOST_IN_FLIGHT, Math.floor(IN_FLIGHT_BYTES / bytes));
}

/** Enqueues single tasks, or leases, completes and replaces them. Each run has its own queue. */
function ofSize(
  generator: LoadGenerator,
  { pid, endpoint }: ServerProcess,
  kind: 'enqueue' | 'lease-complete',
  name: string,
  bytes: number,
): Contestant {
  const inFlight = inFlightOf(bytes);
  let run = 0;
  const queue = (): string => `${kind}-${bytes}-${run}`;
  const enqueueing = (): Operation => ({ kind: 'enqueue', via: 'client', queue: queue(), batch: 1, bytes });
  return {
    name,
    serverPids: [pid],
    profiled: true,
    async prepare() {
      await deleteQueues(endpoint, [queue()]);
      run++;
      if (kind === 'enqueue') return;
      const maxTasks = inFlight * QUEUED_FACTOR;
      await generator.run({ kind: 'loop', endpoint, operation: enqueueing(), inFlight, ms: 60_000, maxTasks });
    },
    run(ms) {
      const operation: Operation =
        kind === 'enqueue' ? enqueueing() : { kind, via: 'client', queue: queue(), batch: 1, bytes, replace: true };
      return generator.run({ kind: 'loop', endpoint, operation, inFlight, ms });
    },
  };
}

/** Enqueues of ordinary tasks, alone and while other callers enqueue, or lease and replace, large ones. */
async function* besideLarge(bench: Bench, node: ServerProcess): AsyncGenerator<Measurement> {
  const others = bench.processes.generator();
  const large = bench.processes.generator();
  const { endpoint } = node;
  const small = ofOthers(others, node);
  const queue = 'large';
  await large.run({
    kind: 'loop',
    endpoint,
    operation: { kind: 'enqueue', via: 'client', queue, batch: 1, bytes: LARGE_BYTES },
    inFlight: 1,
    ms: 60_000,
    maxTasks: Math.max(...LARGE_CALLERS) * QUEUED_FACTOR,
  });
  const rates: number[][] = LARGE_CALLERS.map(() => []);
  const [alone, ...beside] = await compete(bench, [
    small('alone'),
    ...LARGE_CALLERS.map((callers, index) => {
      const contestant = small(`beside ${callers}`);
      return {
        ...contestant,
        async run(ms: number) {
          const operation = {
            kind: 'lease-complete',
            via: 'client',
            queue,
            batch: 1,
            bytes: LARGE_BYTES,
            replace: true,
          } as const;
          const loading = large.run({ kind: 'loop', endpoint, operation, inFlight: callers, ms: ms + 2 * LEAD_MS });
          await delay(LEAD_MS);
          const result = await contestant.run(ms);
          const { tasks, elapsedMs } = await loading;
          rates[index]?.push((tasks * 1000) / elapsedMs);
          return result;
        },
      };
    }),
  ]);
  if (alone === undefined) return;
  for (const [index, figures] of beside.entries()) yield besideLine(bench, figures, alone, rates[index]?.at(-1) ?? 0);
}

function ofOthers(generator: LoadGenerator, { pid, endpoint }: ServerProcess): (name: string) => Contestant {
  return (name) => {
    let run = 0;
    const queue = (): string => `others ${name} ${run}`;
    return {
      name,
      serverPids: [pid],
      async prepare() {
        await deleteQueues(endpoint, [queue()]);
        run++;
      },
      run(ms) {
        const operation = { kind: 'enqueue', via: 'client', queue: queue(), batch: 1 } as const;
        return generator.run({ kind: 'loop', endpoint, operation, inFlight: OTHERS_IN_FLIGHT, ms });
      },
    };
  };
}

function besideLine({ load }: Bench, beside: Figures, alone: Figures, largePerS: number): Measurement {
  const ratio = latencyRatioOf(beside, alone, 'p99Ms');
  return {
    row: taskSizes.name,
    variant: `p99 of others, ${beside.name} of 1 MB`,
    tasksPerS: beside.tasksPerS,
    p50Ms: beside.p50Ms,
    p99Ms: beside.p99Ms,
    baseline: alone.name,
    baselinePerS: alone.tasksPerS,
    ratio,
    target: atMost('ratio', ratio, MOST_P99_RATIO),
    load,
    more: { ...latencyFields('baseline_', alone), large_tasks_per_s: round(largePerS, 1) },
  };
}
