import { connect } from '@taskmaster/client';
import { type Contestant, compete } from '../contest.ts';
import { deleteQueues, fill, fillSpread } from '../contestants.ts';
import type { Via } from '../load/jobs.ts';
import { spreadNames } from '../load/queue-names.ts';
import { round } from '../machine.ts';
import { atLeast, atMost, type Measurement, median, versus } from '../measurement.ts';
import { metricOf } from '../metrics.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';
import { memoryNow, settled } from './memory.ts';
import { killAndStart } from './restart.ts';

const MB = 1e6;
const DEEP = { queue: 'deep', queues: 1_000 } as const;
/** Each of these queues has enough tasks for a lease of 50. */
const SHALLOW = { queue: 'shallow', queues: 100, tasks: 10_000 } as const;
const MOST_DELETE_MS = 50;
/** Limit of the time for compactions after the fill, before the measurements, in ms. */
const COMPACT_MS = 5 * 60_000;
/** The fraction of all tasks that is in one queue, which is deleted. */
const LARGE_PART = 0.1;
const LARGE = 'large';

interface Depth {
  readonly name: string;
  readonly about: string;
  readonly when: Row['when'];
  readonly tasks: number;
  /** Size of each payload. */
  readonly bytes: number;
  readonly leastRatio: number;
  readonly mostStartMs: number;
  readonly deletions: boolean;
}

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
  { variant: 'B1', kind: 'enqueue', via: 'unary', ...single },
  { variant: 'B3', kind: 'enqueue', via: 'client', ...single },
  { variant: 'B5', kind: 'enqueue', via: 'client', ...batches },
  { variant: 'B6', kind: 'lease-complete', via: 'client', ...batches },
];

/** Many queued tasks compared with few, on two nodes in turn; memory and restarts of the node with many. */
export const depthRows: readonly Row[] = [
  depth({
    name: 'B8',
    about: '10 M tasks in 1,000 queues against 10 k: B1, B3, B5, B6; memory; restart after SIGKILL (10 GB of disk)',
    when: 'all',
    tasks: 10_000_000,
    bytes: 1_000,
    leastRatio: 0.9,
    mostStartMs: 3_000,
    deletions: false,
  }),
  depth({
    name: 'B9',
    about: 'the same with 100 M tasks of 50 bytes, and the deletion of queues (15 GB of disk)',
    when: 'named',
    tasks: 100_000_000,
    bytes: 50,
    leastRatio: 0.8,
    mostStartMs: 10_000,
    deletions: true,
  }),
];

function depth(of: Depth): Row {
  const { name, about, when } = of;
  return { name, about, when, run: (bench) => measure(bench, of) };
}

async function* measure(bench: Bench, of: Depth): AsyncGenerator<Measurement> {
  const { processes, scale } = bench;
  const tasks = scale.tasks ?? of.tasks;
  const dir = await processes.directory();
  const node = await processes.node(dir);
  const shallow = await processes.node();
  const generator = processes.generator();
  const emptyMb = memoryNow(node.pid).rss / MB;
  const large = of.deletions ? Math.ceil(tasks * LARGE_PART) : 0;
  const began = performance.now();
  const filled = await fillSpread(bench, generator, node, { ...DEEP, tasks: tasks - large, bytes: of.bytes });
  if (large > 0)
    await fillSpread(bench, generator, node, { queue: LARGE, queues: undefined, tasks: large, bytes: of.bytes });
  const fillPerS = (tasks * 1000) / (performance.now() - began);
  await settled(bench, node.pid, COMPACT_MS);
  const queuedMb = memoryNow(node.pid).rss / MB;

  const rssMb: number[] = [queuedMb];
  for (const load of loads) {
    yield await compare(bench, of, load, { deep: node, shallow, generator, tasks: filled + large });
    rssMb.push(memoryNow(node.pid).rss / MB);
  }
  await shallow.stop();
  if (of.deletions) yield* deletions(bench, of, node, generator, large);
  const peakMb = round(memoryNow(node.pid).peak / MB, 1);
  const memoryMb = round((await metricOf(node, 'taskmaster_memory_bytes')) / MB, 1);
  yield {
    row: of.name,
    variant: 'memory',
    baseline: 'empty',
    ratio: peakMb / emptyMb,
    // The node may be given another memory with `--node-flag memory=512MiB`.
    target: atMost('rss_peak_mb', peakMb, memoryMb),
    load: bench.load,
    more: {
      rss_peak_mb: peakMb,
      memory_mb: memoryMb,
      rss_mb: round(Math.max(...rssMb), 1),
      rss_queued_mb: round(queuedMb, 1),
      baseline_rss_mb: round(emptyMb, 1),
      tasks,
      queues: DEEP.queues,
      fill_per_s: Math.round(fillPerS),
    },
  };
  yield await restarts(bench, of, node, dir, tasks);
}

interface Nodes {
  readonly deep: ServerProcess;
  readonly shallow: ServerProcess;
  readonly generator: LoadGenerator;
  readonly tasks: number;
}

async function compare(bench: Bench, of: Depth, load: DepthLoad, nodes: Nodes): Promise<Measurement> {
  const [deep, shallow] = await compete(bench, [
    onDepth(bench, nodes.generator, nodes.deep, load, of, DEEP),
    onDepth(bench, nodes.generator, nodes.shallow, load, of, SHALLOW),
  ]);
  const line = { row: of.name, variant: load.variant, load: bench.load };
  const more = { deep_tasks: nodes.tasks, shallow_tasks: SHALLOW.tasks };
  return versus({ ...line, more }, deep, shallow, (ratio) => atLeast('ratio', ratio, of.leastRatio));
}

/**
 * Runs a load on both depths with one generator, so that compiled code and connections are the same for both. A completion
 * replaces the task in the same update, so that depths do not change. Each run has new shallow queues.
 */
function onDepth(
  bench: Bench,
  generator: LoadGenerator,
  { pid, endpoint }: ServerProcess,
  { kind, via, batch, inFlight }: DepthLoad,
  { bytes }: Depth,
  { queue, queues }: typeof DEEP | typeof SHALLOW,
): Contestant {
  const calls = { via, queue, spread: queues, batch, bytes };
  const operation = kind === 'enqueue' ? { kind, ...calls } : { kind, ...calls, replace: true };
  return {
    name: queue,
    serverPids: [pid],
    profiled: true,
    async prepare() {
      if (queue === DEEP.queue) return;
      await deleteQueues(endpoint, spreadNames(queue, queues));
      await fillSpread(bench, generator, { endpoint }, { ...SHALLOW, bytes });
    },
    run: (ms) => generator.run({ kind: 'loop', endpoint, operation, inFlight, ms }),
  };
}

/** Duration of the deletion of a queue with one task and of one with many. */
async function* deletions(
  bench: Bench,
  of: Depth,
  node: ServerProcess,
  generator: LoadGenerator,
  large: number,
): AsyncGenerator<Measurement> {
  await using client = await connect(node.endpoint);
  const timed = async (queue: string): Promise<{ readonly ms: number; readonly deleted: number }> => {
    const began = performance.now();
    const deleted = await client.queue(queue).delete();
    return { ms: performance.now() - began, deleted };
  };
  const small: number[] = [];
  for (let run = 0; run < Math.max(3, bench.scale.repetitions); run++) {
    await fill(generator, node, 'small', 1);
    small.push((await timed('small')).ms);
  }
  const one = median(small);
  bench.progress(`deleting ${large.toLocaleString('en')} tasks`);
  const { ms, deleted } = await timed(LARGE);
  yield {
    row: of.name,
    variant: 'delete',
    baseline: 'a queue of one task',
    ratio: ms / one,
    target: atMost('delete_ms', round(ms, 2), MOST_DELETE_MS),
    load: bench.load,
    more: { delete_ms: round(ms, 2), baseline_delete_ms: round(one, 2), deleted_tasks: deleted },
  };
}

async function restarts(
  bench: Bench,
  of: Depth,
  node: ServerProcess,
  dir: string,
  tasks: number,
): Promise<Measurement> {
  const { queue, queues: spread } = DEEP;
  const [first = ''] = spreadNames(queue, 1);
  const starts = await killAndStart(bench, node, { dir, queue, spread, first });
  const firstRpcMs = round(median(starts.map((start) => start.firstRpcMs)), 0);
  return {
    row: of.name,
    variant: 'restart',
    ratio: firstRpcMs / of.mostStartMs,
    target: atMost('first_rpc_ms', firstRpcMs, of.mostStartMs),
    load: bench.load,
    more: {
      first_rpc_ms: firstRpcMs,
      ready_ms: round(median(starts.map((start) => start.node.readyMs)), 0),
      tasks,
      all_first_rpc_ms: starts.map((start) => round(start.firstRpcMs, 0)),
    },
  };
}
