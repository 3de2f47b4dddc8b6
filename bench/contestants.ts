import { connect } from '@taskmaster/client';
import type { Contestant } from './contest.ts';
import type { LoadCredentials } from './load/connections.ts';
import type { Operation, Via } from './load/jobs.ts';
import type { LoadGenerator, ServerProcess } from './processes.ts';
import type { Bench } from './row.ts';

/** A load on its own queue. */
export type Load =
  | {
      readonly kind: 'enqueue' | 'lease-complete';
      readonly via: Via;
      /** Tasks in one call. */
      readonly batch: number;
      readonly inFlight: number;
    }
  | { readonly kind: 'worker'; readonly concurrency: number };

/** Queues are filled in batches of this size, with `FILL_IN_FLIGHT` calls in flight. */
const FILL_BATCH = 500;
const FILL_IN_FLIGHT = 8;
/** Tasks that are enqueued between two progress messages. */
const FILL_STEP = 500_000;
const FILL_MS = 10 * 60_000;
const EVERLASTING = Number.MAX_SAFE_INTEGER;

/** The path of a load that does not go directly to the node which holds the queue. */
export interface Way {
  readonly name: string;
  readonly endpoint: string;
  /** Nodes and proxies whose CPU time counts. */
  readonly serverPids: readonly number[];
  readonly proxyPids?: readonly number[];
  /** Group of the queues. */
  readonly group: string;
  readonly credentials?: LoadCredentials;
  /** Number of limit keys of the tasks. Default: they have none. */
  readonly limitKeys?: number;
}

/** Runs a load against a node, each run on a new queue. */
export function onNode(bench: Bench, node: ServerProcess, load: Load, way?: Way): Contestant {
  const {
    name = 'node',
    endpoint = node.endpoint,
    serverPids = [node.pid],
    proxyPids = [],
    group,
    limitKeys,
  } = way ?? {};
  const generator = bench.processes.generator(way?.credentials);
  const queues = new FreshQueues(node, group === undefined ? 'bench' : `${group}#${name}`, way?.credentials);
  let prepared = 0;
  return {
    name,
    serverPids,
    proxyPids,
    profiled: true,
    async prepare(expectedTasks) {
      await queues.renew();
      prepared = load.kind === 'enqueue' ? 0 : await fill(generator, node, queues.current, expectedTasks, limitKeys);
    },
    run: (ms) => runLoad(generator, endpoint, load, queues.current, ms, prepared, limitKeys),
  };
}

/** Runs a load against a server that does nothing. It never runs out of tasks. */
export function onNoop(bench: Bench, name: string, server: ServerProcess, load: Load): Contestant {
  const generator = bench.processes.generator();
  return {
    name,
    serverPids: [server.pid],
    run: (ms) => runLoad(generator, server.endpoint, load, 'bench', ms, EVERLASTING),
  };
}

/** Does the disk work of a load in one process. */
export async function onStore(bench: Bench, load: Load): Promise<Contestant> {
  const generator = bench.processes.generator();
  const endpoint = await bench.processes.directory();
  const batch = load.kind === 'worker' ? 1 : load.batch;
  const inFlight = load.kind === 'worker' ? load.concurrency : load.inFlight;
  const kind = load.kind === 'enqueue' ? 'store-enqueue' : 'store-lease-complete';
  const loop = (operation: Operation, lanes: number, ms: number, maxTasks?: number) =>
    generator.run({ kind: 'loop', endpoint, operation, inFlight: lanes, ms, maxTasks });
  return {
    name: 'raw store',
    serverPids: [],
    async prepare(expectedTasks) {
      if (kind === 'store-enqueue') return;
      await loop({ kind: 'store-enqueue', batch: FILL_BATCH }, FILL_IN_FLIGHT, FILL_MS, expectedTasks);
    },
    run: (ms) => loop({ kind, batch }, inFlight, ms),
  };
}

/** Enqueues about `tasks` tasks. Resolves with their exact number. */
export async function fill(
  generator: LoadGenerator,
  node: ServerProcess,
  queue: string,
  tasks: number,
  limitKeys?: number,
): Promise<number> {
  const { tasks: filled } = await generator.run({
    kind: 'loop',
    endpoint: node.endpoint,
    operation: { kind: 'enqueue', via: 'unary', queue, batch: FILL_BATCH, limitKeys },
    // One call at a time does not exceed the number, which matters for few tasks.
    inFlight: tasks > FILL_BATCH * FILL_IN_FLIGHT ? FILL_IN_FLIGHT : 1,
    ms: FILL_MS,
    maxTasks: tasks,
  });
  return filled;
}

/** Filled queues: one queue, or several queues with this prefix. */
export interface Filled {
  readonly queue: string;
  readonly queues: number | undefined;
  readonly tasks: number;
  readonly bytes: number;
  /** Tasks of an update. Default: a fast size, but not more than a queue gets. */
  readonly batch?: number;
}

/** Enqueues about `tasks` tasks evenly over queues and shows the progress. Resolves with their exact number. */
export async function fillSpread(
  bench: Bench,
  generator: LoadGenerator,
  { endpoint }: Pick<ServerProcess, 'endpoint'>,
  { queue, queues, tasks, bytes, batch = Math.min(FILL_BATCH, Math.ceil(tasks / (queues ?? 1))) }: Filled,
): Promise<number> {
  const spread = queues === undefined ? {} : { spread: queues };
  const operation: Operation = { kind: 'enqueue', via: 'unary', queue, ...spread, batch, bytes };
  const inFlight = tasks > batch * FILL_IN_FLIGHT ? FILL_IN_FLIGHT : 1;
  let filled = 0;
  while (filled < tasks) {
    if (tasks > FILL_STEP) {
      bench.progress(`filling: ${filled.toLocaleString('en')} of ${tasks.toLocaleString('en')} tasks`);
    }
    const maxTasks = Math.min(tasks - filled, FILL_STEP);
    filled += (await generator.run({ kind: 'loop', endpoint, operation, inFlight, ms: FILL_MS, maxTasks })).tasks;
  }
  return filled;
}

/** Deletes queues concurrently. */
export async function deleteQueues(endpoint: string, names: readonly string[]): Promise<void> {
  await using client = await connect(endpoint);
  await Promise.all(names.map((name) => client.queue(name).delete()));
}

/** Fills a deep queue and shows the progress. */
export async function fillDeep(
  bench: Bench,
  generator: LoadGenerator,
  node: ServerProcess,
  queue: string,
): Promise<number> {
  const { deepTasks } = bench.scale;
  let filled = 0;
  while (filled < deepTasks) {
    bench.progress(`filling: ${filled.toLocaleString('en')} of ${deepTasks.toLocaleString('en')} tasks`);
    filled += await fill(generator, node, queue, Math.min(deepTasks - filled, Math.ceil(deepTasks / 20)));
  }
  return filled;
}

function runLoad(
  generator: LoadGenerator,
  endpoint: string,
  load: Load,
  queue: string,
  ms: number,
  prepared: number,
  limitKeys?: number,
): ReturnType<Contestant['run']> {
  if (load.kind === 'worker') {
    return generator.run({
      kind: 'worker',
      endpoint,
      queue,
      concurrency: load.concurrency,
      ms,
      maxTasks: prepared,
    });
  }
  const { kind, via, batch, inFlight } = load;
  const operation: Operation =
    kind === 'enqueue' ? { kind, via, queue, batch, limitKeys } : { kind, via, queue, batch, replace: false };
  return generator.run({ kind: 'loop', endpoint, operation, inFlight, ms });
}

/** A new queue for each run. The previous one is deleted, which takes the same time for any number of tasks. */
class FreshQueues {
  readonly #node: ServerProcess;
  readonly #name: string;
  readonly #credentials: LoadCredentials;
  #number = 0;

  constructor(node: ServerProcess, name: string, credentials: LoadCredentials = {}) {
    this.#credentials = credentials;
    this.#node = node;
    this.#name = name;
  }

  get current(): string {
    return `${this.#name}-${this.#number}`;
  }

  async renew(): Promise<void> {
    const { caFile, token } = this.#credentials;
    const tls = caFile === undefined ? undefined : { caFile };
    await using client = await connect({ endpoints: this.#node.endpoint, tls, token });
    await client.queue(this.current).delete();
    this.#number++;
  }
}
