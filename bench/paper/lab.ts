import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { type LoadGenerator, Processes, type ServerProcess } from '../processes.ts';
import { queueName, type WorkersLoad, type WorkersResult } from './load/workers-load.ts';
import type { Figure, Point } from './result.ts';
import { rateSpreadOf } from './spread.ts';

/** Durations and sizes of the measurements. */
export interface PaperScale {
  readonly quick: boolean;
  /** Threads of each worker, as a fraction of the paper's. */
  readonly threads: number;
  /** Duration of the measured part of a run, and of the warm-up before it, in ms. */
  readonly runMs: number;
  readonly warmUpMs: number;
}

/** The tools of the experiments. */
export interface Lab {
  readonly scale: PaperScale;
  /** Directory for temporary data. */
  readonly dir: string;
  progress(doing: string): void;
}

/** One figure of the paper. */
export interface Experiment {
  readonly figure: Figure;
  run(lab: Lab): AsyncGenerator<Point, void>;
}

/** As in the paper: "worker processes with 10 threads each", in most experiments 50 of them, and payloads of 1 KB. */
export const WORKERS = 50;
const THREADS = 10;
export const TASK_BYTES = 1_000;

/** The cache of the paper's node: 1 GB in most experiments. */
export const PAPER_CACHE = cacheFlag(2 ** 30);

/** Number of tasks in long queues before enqueues into them are measured. */
export const LONG_QUEUES_TASKS = 200_000;

/** Limit of the payload bytes in flight, so that calls do not wait at the client for room at the node. */
const IN_FLIGHT_BYTES = 50e6;

/** Time limit of a fill: large, because the number of tasks ends a fill. */
const FILL_MS = 10 * 60_000;
const FILL_BATCH = 500;
const DELETES_AT_ONCE = 50;

export function newProcesses({ dir }: Lab): Processes {
  return new Processes({ dir, nodeFlags: [], profileDir: undefined });
}

export function cacheFlag(bytes: number): string {
  return `--engine-cache-bytes=${bytes}`;
}

/** The points of a sweep; a quick run has only some. */
export function sweep<T>({ scale }: Lab, full: readonly T[], quick: readonly T[]): readonly T[] {
  return scale.quick ? quick : full;
}

let groups = 0;

/** New consistency groups, one for each worker. */
export function newGroups(count: number): string[] {
  return Array.from({ length: count }, () => `w${groups++}`);
}

/** The paper's threads of a worker, or fewer if their payloads would exceed the limit of a node. */
export function threadsFor(batch: number, taskBytes: number, workers = WORKERS): number {
  return Math.max(1, Math.min(THREADS, Math.floor(IN_FLIGHT_BYTES / (batch * taskBytes * workers))));
}

/** A load with the defaults of most experiments. */
export function load(
  { scale }: Lab,
  of: Pick<WorkersLoad, 'endpoint' | 'groups' | 'operation'> & Partial<WorkersLoad>,
): { readonly kind: 'workers' } & WorkersLoad {
  const common = { via: 'unary', threads: THREADS, queues: 1, taskBytes: TASK_BYTES, batch: 1 } as const;
  const { warmUpMs, runMs } = scale;
  const whole = { kind: 'workers' as const, ...common, warmUpMs, ms: warmUpMs + runMs, ...of };
  return { ...whole, threads: Math.ceil(whole.threads * scale.threads) };
}

/** Number of tasks that a load may process in its time at a rate; at least enough for all its concurrent calls. */
export function tasksFor({ ms, threads, groups, batch }: WorkersLoad, expectedPerS: number): number {
  return Math.max((expectedPerS * ms) / 1000, 3 * threads * groups.length * batch);
}

/** Enqueues about `tasks` tasks to the queues of some workers. */
export async function fill(
  generator: LoadGenerator,
  into: Pick<WorkersLoad, 'endpoint' | 'groups'> & Partial<WorkersLoad>,
  tasks: number,
): Promise<void> {
  const batch = Math.max(1, Math.min(FILL_BATCH, Math.ceil(tasks / into.groups.length / 4)));
  await generator.run({
    kind: 'workers',
    via: 'unary',
    operation: { kind: 'enqueue', pids: 'assigned' },
    queues: 1,
    taskBytes: TASK_BYTES,
    ...into,
    threads: 1,
    batch,
    warmUpMs: 0,
    ms: FILL_MS,
    maxTasks: tasks,
  });
}

/** Deletes the queues of some workers, and waits a moment for the deletion of their rows. */
export async function deleteQueues(
  endpoint: string,
  { groups, queues }: Pick<WorkersLoad, 'groups' | 'queues'>,
  settleMs: number,
): Promise<void> {
  await using client = await connect(endpoint);
  const names = groups.flatMap((group) => Array.from({ length: queues }, (_, number) => queueName(group, number)));
  for (let at = 0; at < names.length; at += DELETES_AT_ONCE) {
    await Promise.all(names.slice(at, at + DELETES_AT_ONCE).map((name) => client.queue(name).delete()));
  }
  await delay(settleMs);
}

/**
 * A node with queues whose tasks are not in memory, as in the paper: it must look up in the store whether a PID exists.
 */
export async function nodeWithLongQueues(
  lab: Lab,
  processes: Processes,
  generator: LoadGenerator,
  of: Pick<WorkersLoad, 'groups' | 'queues'>,
): Promise<ServerProcess> {
  lab.progress('filling queues beyond what the node keeps in memory');
  const dir = await processes.directory();
  const node = await processes.node(dir, [PAPER_CACHE]);
  const tasks = lab.scale.quick ? LONG_QUEUES_TASKS / 10 : LONG_QUEUES_TASKS;
  const operation = { kind: 'enqueue', pids: 'random' } as const;
  await fill(generator, { endpoint: node.endpoint, operation, ...of }, tasks);
  await node.stop();
  return processes.node(dir, [PAPER_CACHE]);
}

/** The point of a chart from the results of a load. Throws if no task was done. */
export function pointOf(figure: Figure, series: string, x: number, results: readonly WorkersResult[]): Point {
  const [first, ...others] = results;
  if (first === undefined || results.some(({ tasks }) => tasks === 0)) {
    throw new Error(`${figure}: ${series} at ${x} did nothing in its time`);
  }
  const intervals = Math.min(...results.map(({ perInterval }) => perInterval.length));
  const together = first.perInterval
    .slice(0, intervals)
    .map((rate, i) => others.reduce((sum, { perInterval }) => sum + (perInterval[i] ?? 0), rate));
  const sumOf = (of: (result: WorkersResult) => number): number => results.reduce((sum, one) => sum + of(one), 0);
  return {
    figure,
    series,
    x,
    tasksPerS: rateSpreadOf(
      together,
      sumOf(({ tasksPerS }) => tasksPerS),
    ),
    // Concurrent loads have about the same latencies.
    latencyMs: first.latencyMs,
    refused: sumOf(({ refused }) => refused),
    ranDry: results.some(({ ranDry }) => ranDry),
  };
}
