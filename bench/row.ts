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
  /** Idle long polls. */
  readonly polls: number;
  /** How long an idle node is watched, and how long one is left alone before its memory counts, in ms. */
  readonly settleMs: number;
  /** Tasks handed to a waiting consumer in one run. */
  readonly handOvers: number;
}

export const FULL_SCALE: Scale = {
  runMs: 3_000,
  warmUpMs: 1_500,
  warmUpTasks: 30_000,
  repetitions: 3,
  deepTasks: 1_000_000,
  polls: 1_000,
  settleMs: 5_000,
  handOvers: 300,
};

/** For a look at whether everything works; its figures say nothing. */
export const QUICK_SCALE: Scale = {
  runMs: 500,
  warmUpMs: 200,
  warmUpTasks: 1,
  repetitions: 1,
  deepTasks: 20_000,
  polls: 100,
  settleMs: 300,
  handOvers: 20,
};

/** What a row works with. */
export interface Bench {
  readonly scale: Scale;
  /** Processes and directories of this row; they end with it. */
  readonly processes: Processes;
  /** Load average when the row began. */
  readonly load: number;
  /** Tells people what is being done. */
  progress(doing: string): void;
  /** Marks a time in which the row's load ran, for the profile. */
  measured(windowOfLoad: LoadWindow): void;
}

/** A time in which load ran against the node, on the monotonic clock, in µs. */
export interface LoadWindow {
  readonly beganUs: number;
  readonly endedUs: number;
  readonly tasks: number;
}

/** One row of the benchmark, or a family of lines under one name. */
export interface Row {
  /** Stable: results of different days are compared by it. */
  readonly name: string;
  readonly about: string;
  run(bench: Bench): AsyncGenerator<Measurement, void>;
}

/** This machine cannot show what the row asks for. */
export class CannotRun extends Error {
  override readonly name = 'CannotRun';
}
