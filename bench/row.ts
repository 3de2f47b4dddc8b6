import type { Measurement } from './measurement.ts';
import type { PeerResults } from './peer-results.ts';
import type { WorkloadName } from './peers/results.ts';
import type { Processes } from './processes.ts';

/** Durations and sizes of the measurements. */
export interface Scale {
  /** Duration of one run, in ms. */
  readonly runMs: number;
  /** Duration of one warm-up run, in ms. Warm-up runs are repeated up to a limit until `warmUpTasks` are done. */
  readonly warmUpMs: number;
  readonly warmUpTasks: number;
  readonly repetitions: number;
  /** Number of tasks in a deep queue. */
  readonly deepTasks: number;
  /** Number of tasks in rows about many tasks. Undefined: each row has its own number. */
  readonly tasks: number | undefined;
  /** Number of idle long polls. */
  readonly polls: number;
  /** Time for which an idle node is watched, and time before the memory of a node is measured, in ms. */
  readonly settleMs: number;
  /** Number of tasks for a waiting consumer in one run. */
  readonly handOvers: number;
  /** Number of tasks for one of many idle polls. */
  readonly wakes: number;
}

export const FULL_SCALE: Scale = {
  runMs: 3_000,
  warmUpMs: 1_500,
  warmUpTasks: 30_000,
  repetitions: 3,
  deepTasks: 1_000_000,
  tasks: undefined,
  polls: 10_000,
  settleMs: 5_000,
  handOvers: 300,
  wakes: 200,
};

/** For a test that everything works. Its figures mean nothing. */
export const QUICK_SCALE: Scale = {
  runMs: 250,
  warmUpMs: 50,
  warmUpTasks: 1,
  repetitions: 1,
  deepTasks: 20_000,
  tasks: 10_000,
  polls: 100,
  settleMs: 300,
  handOvers: 20,
  wakes: 10,
};

/** A source of figures of other queues. */
export interface PeerSource {
  /** The results of a workload; empty if none are known. */
  of(workload: WorkloadName, bench: Bench): Promise<PeerResults>;
}

/** The tools of a row. */
export interface Bench {
  readonly scale: Scale;
  /** Processes and directories of this row. They end with it. */
  readonly processes: Processes;
  /** Results of other queues on this machine. */
  readonly peers: PeerSource;
  /** Load average when the row began. */
  readonly load: number;
  /** Shows the progress to the user. */
  progress(doing: string): void;
  /** Notes a time in which the row's load ran, for the profile. */
  measured(windowOfLoad: LoadWindow): void;
}

/** A time in which load ran against the node, on the monotonic clock, in µs. */
export interface LoadWindow {
  /** Names the load and its server. Times with the same name are added up. */
  readonly of: string;
  readonly beganUs: number;
  readonly endedUs: number;
  readonly tasks: number;
}

/** One row of the benchmark: one line, or several lines with one name. */
export interface Row {
  /** Must not change: results of different days are compared by name. */
  readonly name: string;
  readonly about: string;
  /** When the row runs: always, with `all`, or only by name. */
  readonly when: 'always' | 'all' | 'named';
  run(bench: Bench): AsyncGenerator<Measurement, void>;
}

/** This machine cannot measure the row. */
export class CannotRunError extends Error {
  override readonly name = 'CannotRunError';
}
