import { setTimeout as delay } from 'node:timers/promises';
import { partitionOf } from '@taskmaster/proto';
import { type Contestant, compete } from '../contest.ts';
import { fillDeep } from '../contestants.ts';
import type { Job, JobResults } from '../load/jobs.ts';
import { round } from '../machine.ts';
import { type LoadResult, latencyRatioOf, median, versus } from '../measurement.ts';
import type { LoadGenerator, ServerProcess } from '../processes.ts';
import type { Bench, Row } from '../row.ts';

const MIB = 1024 * 1024;
const PARTITIONS = 2;
const FILLED = 'large#bench';
/** Time that a backup runs before the load begins, in ms. */
const LEAD_MS = 300;
const SPEEDS = [
  { name: 'default', flags: [] },
  { name: 'unbounded', flags: ['--backup-max-bytes-per-second=0'] },
] as const;

type LoadJob = Extract<Job, { readonly kind: 'loop' | 'paced' }>;

/** The loads that a backup runs beside. They use another partition than the filled one. */
const LOADS: readonly { readonly name: string; job(endpoint: string, ms: number): LoadJob }[] = [
  {
    name: 'enqueues, 64 in flight',
    job: (endpoint, ms) => ({
      kind: 'loop',
      endpoint,
      inFlight: 64,
      ms,
      operation: { kind: 'enqueue', via: 'client', queue: 'bench', batch: 1 },
    }),
  },
  {
    name: '300 rounds per second',
    job: (endpoint, ms) => ({
      kind: 'paced',
      endpoint,
      via: 'client',
      queues: ['paced'],
      batch: 1,
      tasksPerS: 300,
      ms,
    }),
  },
];

/** The cost of a backup for other calls, and its speed. */
export const backup: Row = {
  name: 'backup',
  about: 'enqueues, and 300 rounds per second, while a partition of 1 M tasks is backed up again and again',
  when: 'all',
  async *run(bench) {
    for (const { name, flags } of SPEEDS) {
      const node = await bench.processes.node(undefined, [`--engine-partitions=${PARTITIONS}`, ...flags]);
      const [loads, reader] = [bench.processes.generator(), bench.processes.generator()];
      await fillDeep(bench, loads, node, FILLED);
      for (const load of LOADS) {
        const alone: Contestant = {
          name: 'undisturbed',
          serverPids: [node.pid],
          run: (ms) => loads.run(load.job(node.endpoint, ms)),
        };
        const beside = new BesideBackup(node, loads, reader, load.job);
        const [still, disturbed] = await compete(bench, [alone, beside]);
        const more = { p99_ratio: round(latencyRatioOf(disturbed, still, 'p99Ms'), 2), ...beside.figures(bench) };
        yield versus({ row: backup.name, variant: `${load.name}, ${name}`, load: bench.load, more }, disturbed, still);
      }
      await node.stop();
    }
  },
};

/** A load while the filled partition is backed up. */
class BesideBackup implements Contestant {
  readonly name = 'beside a backup';
  readonly profiled = true;
  readonly serverPids: readonly number[];
  readonly #node: ServerProcess;
  readonly #loads: LoadGenerator;
  readonly #reader: LoadGenerator;
  readonly #job: (endpoint: string, ms: number) => LoadJob;
  readonly #backups: JobResults['backup'][] = [];

  constructor(
    node: ServerProcess,
    loads: LoadGenerator,
    reader: LoadGenerator,
    job: (endpoint: string, ms: number) => LoadJob,
  ) {
    this.serverPids = [node.pid];
    this.#node = node;
    this.#loads = loads;
    this.#reader = reader;
    this.#job = job;
  }

  async run(ms: number): Promise<LoadResult> {
    const { endpoint } = this.#node;
    const partition = partitionOf(FILLED.split('#')[0] ?? '', PARTITIONS);
    const backingUp = this.#reader.run({ kind: 'backup', endpoint, partition, ms: ms + 2 * LEAD_MS });
    // Awaited below. If the load fails first, its error is reported.
    backingUp.catch(() => {});
    await delay(LEAD_MS);
    const result = await this.#loads.run(this.#job(endpoint, ms));
    this.#backups.push(await backingUp);
    return result;
  }

  /** The figures of the measured runs, without those of the warm-up. */
  figures({ scale }: Bench): { readonly backup_mib_per_s: number; readonly backup_generator_cpu: number } {
    const measured = this.#backups.slice(-scale.repetitions);
    const rates = measured.map(({ bytes, elapsedMs }) => (bytes * 1000) / elapsedMs / MIB);
    const cpu = measured.map(({ cpuMs, elapsedMs }) => cpuMs / elapsedMs);
    return { backup_mib_per_s: round(median(rates), 1), backup_generator_cpu: round(median(cpu), 2) };
  }
}
