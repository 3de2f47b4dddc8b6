import type { PeerSource } from './installed-peers.ts';
import type { Measurement } from './measurement.ts';
import type { Processes } from './processes.ts';

/** How long and how often is measured. */
export interface Scale {
  /** One run, in ms. */
  readonly runMs: number;
  /** The runs before those that count, in ms: as many as it takes to do `warmUpTasks`, within reason. */
  readonly warmUpMs: number;
  readonly warmUpTasks: number;
  readonly repetitions: number;
  /** Tasks in a deep queue. */
  readonly deepTasks: number;
  /** Tasks that rows about many tasks are to have instead of their own number; undefined: their own. */
  readonly tasks: number | undefined;
  /** Idle long polls. */
  readonly polls: number;
  /** How long an idle node is watched, and how long one is left alone before its memory counts, in ms. */
  readonly settleMs: number;
  /** Tasks handed to a waiting consumer in one run. */
  readonly handOvers: number;
  /** Tasks handed to one of many idle polls. */
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

/** For a look at whether everything works; its figures say nothing. */
export const QUICK_SCALE: Scale = {
  runMs: 500,
  warmUpMs: 200,
  warmUpTasks: 1,
  repetitions: 1,
  deepTasks: 20_000,
  tasks: 10_000,
  polls: 100,
  settleMs: 300,
  handOvers: 20,
  wakes: 10,
};

/** What a row works with. */
export interface Bench {
  readonly scale: Scale;
  /** Processes and directories of this row; they end with it. */
  readonly processes: Processes;
  /** What other queues do on this machine, where that can be known. */
  readonly peers: PeerSource;
  /** Load average when the row began. */
  readonly load: number;
  /** Tells people what is being done. */
  progress(doing: string): void;
  /** Marks a time in which the row's load ran, for the profile. */
  measured(windowOfLoad: LoadWindow): void;
}

/** A time in which load ran against the node, on the monotonic clock, in µs. */
export interface LoadWindow {
  /** What the load was and ran against: times with the same one are added up. */
  readonly of: string;
  readonly beganUs: number;
  readonly endedUs: number;
  readonly tasks: number;
}

/** One row of the benchmark, or a family of lines under one name. */
export interface Row {
  /** Stable: results of different days are compared by it. */
  readonly name: string;
  readonly about: string;
  /** Runs without being named: always, with `all`, or never. */
  readonly when: 'always' | 'all' | 'named';
  run(bench: Bench): AsyncGenerator<Measurement, void>;
}

/** This machine cannot show what the row asks for. */
export class CannotRunError extends Error {
  override readonly name = 'CannotRunError';
}
