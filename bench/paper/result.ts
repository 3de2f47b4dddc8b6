import { readFile } from 'node:fs/promises';
import { UsageError } from '../arguments.ts';
import { messageOf } from '../report.ts';
import type { RateSpread, Spread } from './spread.ts';

export const figures = ['table-1', 'figure-3', 'figure-4', 'figure-5', 'figure-6', 'figure-7'] as const;
/** The figures with the numbers of the paper. */
export type Figure = (typeof figures)[number];

/** One measured point of a figure. */
export interface Point {
  readonly figure: Figure;
  readonly series: string;
  /** The varied value of the figure's sweep; 0 without a sweep. */
  readonly x: number;
  readonly tasksPerS: RateSpread;
  readonly latencyMs: Spread;
  /** Reads of the store. */
  readonly readsPerS?: Spread;
  readonly readsPer1000Tasks?: number;
  /** Refills of the observed queue. */
  readonly refillsPerMin?: number;
  /** Rate of the other load. */
  readonly besideTasksPerS?: number;
  /** CPU time of all servers for each task, in µs. */
  readonly serverCpuUs?: number;
  /** Number of calls that were refused as OVERLOADED and retried. */
  readonly refused: number;
  /** True if no task was left before the time was over. */
  readonly ranDry: boolean;
}

/** The result of a run, with all data that its report needs. */
export interface PaperResult {
  readonly format: 1;
  readonly command: string;
  /** Start of the run: ISO 8601, UTC. */
  readonly date: string;
  readonly minutes: number;
  /** True for a quick run, whose figures mean nothing. */
  readonly quick: boolean;
  /** Duration of the measured part of each run, in seconds. */
  readonly seconds: number;
  /** The machine, with the load average before the run. */
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly points: readonly Point[];
  /** Figures that could not be measured completely, with the reasons. */
  readonly failures: readonly { readonly figure: Figure; readonly error: string }[];
}

/** The file is not the result of a run; the message says why. */
class UnreadableResultError extends UsageError {}

/** Reads the result of a run. Throws `UnreadableResultError`. */
export async function readResult(file: string): Promise<PaperResult> {
  let read: unknown;
  try {
    read = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new UnreadableResultError(messageOf(error));
  }
  if (!isResult(read)) throw new UnreadableResultError(`${file} is not the data of a run of this format`);
  return read;
}

function isResult(value: unknown): value is PaperResult {
  if (typeof value !== 'object' || value === null || !('format' in value)) return false;
  if (!('points' in value) || !('failures' in value)) return false;
  return value.format === 1 && Array.isArray(value.points) && Array.isArray(value.failures);
}
