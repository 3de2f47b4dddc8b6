import { connect, type TaskMasterClient } from '@taskmaster/client';
import { fillSpread } from '../contestants.ts';
import { spreadNames } from '../load/queue-names.ts';
import { round } from '../machine.ts';
import { atMost, type Measurement, percentile } from '../measurement.ts';
import type { ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';
import { memoryNow, settled } from './memory.ts';

const QUEUES = 100_000;
const PAYLOAD_BYTES = 100;
const MOST_BYTES = 1_024;
const MOST_LIST_MS = 50;
const LISTINGS = 30;
/** Number of queues that a lease names, and of the tasks that it gets: one of each queue. */
const LEASE_QUEUES = 1_000;
/** Limit of the runs of leases. */
const LEASE_RUNS = 10;
const PAGE = 1_000;

/** Regular expressions of listings. Queue names end with their numbers. */
const LISTED = {
  few: '999$',
  none: 'nobody$',
  page: '-[0-9]+$',
} as const;

/** Many queues with one task each, compared with one queue of as many tasks. */
export const manyQueues: Row = {
  name: 'B11',
  about: '100 k queues of one task each: memory of a queue, listing by regular expression, leases over all',
  when: 'all',
  async *run(bench) {
    const { processes, scale } = bench;
    const queues = scale.tasks ?? QUEUES;
    const dirs = { many: await processes.directory(), one: await processes.directory() };
    const nodes = { many: await processes.node(dirs.many), one: await processes.node(dirs.one) };
    await fillBoth(bench, nodes, queues);
    yield memoryLine(bench, 'memory', queues, await rssOf(bench, nodes));
    yield* listings(bench, nodes.many, queues);
    await nodes.many.stop();
    await nodes.one.stop();
    // A new process, without the garbage of the fill.
    nodes.many = await processes.node(dirs.many);
    nodes.one = await processes.node(dirs.one);
    yield memoryLine(bench, 'memory after a start', queues, await rssOf(bench, nodes));
    yield await leases(bench, 'lease after a start', nodes, queues);
    await nodes.many.stop();
    await nodes.one.stop();
    nodes.many = await processes.node();
    nodes.one = await processes.node();
    await fillBoth(bench, nodes, queues);
    yield await leases(bench, 'lease', nodes, queues);
    await nodes.many.stop();
    await nodes.one.stop();
  },
};

async function fillBoth(bench: Bench, { many, one }: Nodes, queues: number): Promise<void> {
  const generator = bench.processes.generator();
  bench.progress(`filling ${queues.toLocaleString('en')} queues`);
  // With the same number of requests, because a node remembers each request of the last two minutes, also after a restart.
  const filled = { queue: 'many', tasks: queues, bytes: PAYLOAD_BYTES, batch: 1 };
  await fillSpread(bench, generator, many, { ...filled, queues });
  await fillSpread(bench, generator, one, { ...filled, queue: 'one', queues: undefined });
  await generator.stop();
}

interface Nodes {
  readonly many: ServerProcess;
  readonly one: ServerProcess;
}

interface Rss {
  readonly many: number;
  readonly one: number;
}

async function rssOf(bench: Bench, { many, one }: Nodes): Promise<Rss> {
  await settled(bench, many.pid);
  await settled(bench, one.pid);
  return { many: memoryNow(many.pid).rss, one: memoryNow(one.pid).rss };
}

function memoryLine({ load }: Bench, variant: string, queues: number, { many, one }: Rss): Measurement {
  const bytesPerQueue = Math.round((many - one) / queues);
  return {
    row: manyQueues.name,
    variant,
    baseline: 'one queue',
    ratio: many / one,
    target: atMost('rss_bytes_per_queue', bytesPerQueue, MOST_BYTES),
    load,
    more: {
      rss_bytes_per_queue: bytesPerQueue,
      rss_mb: round(many / 1e6, 1),
      baseline_rss_mb: round(one / 1e6, 1),
      queues,
    },
  };
}

/** Latency of a listing of some of the queues. */
async function* listings(bench: Bench, node: ServerProcess, queues: number): AsyncGenerator<Measurement> {
  await using client = await connect(node.endpoint);
  for (const [which, regex] of Object.entries(LISTED)) {
    bench.progress(`listing: ${which}`);
    const took: number[] = [];
    let found = 0;
    for (let run = 0; run < LISTINGS; run++) {
      const began = performance.now();
      found = await listPage(client, regex);
      took.push(performance.now() - began);
    }
    const p50Ms = percentile(took, 50);
    yield {
      row: manyQueues.name,
      variant: `list ${which}`,
      p50Ms,
      p99Ms: percentile(took, 99),
      ratio: p50Ms / MOST_LIST_MS,
      target: atMost('list_ms', round(p50Ms, 2), MOST_LIST_MS),
      load: bench.load,
      more: { list_ms: round(p50Ms, 2), queues, found },
    };
  }
}

/** Resolves with the number of queues in the first page. */
async function listPage(client: TaskMasterClient, regex: string): Promise<number> {
  let found = 0;
  for await (const _queue of client.listQueues({ filter: { regex }, pageSize: PAGE })) {
    if (++found === PAGE) break;
  }
  return found;
}

/**
 * Leases over all queues, compared with leases of one queue. Each call names many queues. The calls follow each other until no
 * task is left or the time is over.
 */
async function leases(bench: Bench, variant: string, { many, one }: Nodes, queues: number): Promise<Measurement> {
  const names = spreadNames('many', queues);
  const calls = Array.from({ length: Math.ceil(queues / LEASE_QUEUES) }, (_, call) =>
    names.slice(call * LEASE_QUEUES, (call + 1) * LEASE_QUEUES),
  );
  bench.progress('leasing from all of them');
  const ms = bench.scale.runMs * LEASE_RUNS;
  const over = await leaseAll(many, calls, ms);
  const from = await leaseAll(
    one,
    calls.map(() => ['one']),
    ms,
  );
  return {
    row: manyQueues.name,
    variant,
    tasksPerS: over.tasksPerS,
    p50Ms: percentile(over.took, 50),
    p99Ms: percentile(over.took, 99),
    baseline: 'one queue',
    baselinePerS: from.tasksPerS,
    ratio: over.tasksPerS / from.tasksPerS,
    load: bench.load,
    more: {
      tasks: over.tasks,
      baseline_tasks: from.tasks,
      queues_per_lease: LEASE_QUEUES,
      tasks_per_lease: round(over.tasks / over.took.length, 1),
      baseline_tasks_per_lease: round(from.tasks / from.took.length, 1),
    },
  };
}

interface Leased {
  readonly tasks: number;
  readonly tasksPerS: number;
  /** Latency of each call, in ms. */
  readonly took: readonly number[];
}

async function leaseAll(node: ServerProcess, calls: readonly (readonly string[])[], ms: number): Promise<Leased> {
  await using client = await connect(node.endpoint);
  const took: number[] = [];
  let tasks = 0;
  const began = performance.now();
  for (const queues of calls) {
    for (let got = LEASE_QUEUES; got > 0 && performance.now() - began < ms; ) {
      const called = performance.now();
      got = (await client.lease({ queues, max: LEASE_QUEUES, leaseDuration: '1h' })).length;
      took.push(performance.now() - called);
      tasks += got;
    }
  }
  return { tasks, tasksPerS: (tasks * 1000) / (performance.now() - began), took };
}
