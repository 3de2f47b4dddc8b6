import { readFile } from 'node:fs/promises';
import { UsageError } from '../arguments.ts';
import { messageOf } from '../report.ts';
import type { RateSpread, Spread } from './spread.ts';

export const figures = ['table-1', 'figure-3', 'figure-4', 'figure-5', 'figure-6', 'figure-7'] as const;
/** As the paper numbers them. */
export type Figure = (typeof figures)[number];

/** One measured point of a figure. */
export interface Point {
  readonly figure: Figure;
  readonly series: string;
  /** What the figure's sweep varies; 0 where nothing is. */
  readonly x: number;
  readonly tasksPerS: RateSpread;
  readonly latencyMs: Spread;
  /** Reads of the store. */
  readonly readsPerS?: Spread;
  readonly readsPer1000Tasks?: number;
  /** Refills of the queue that is watched. */
  readonly refillsPerMin?: number;
  /** What the load beside it did. */
  readonly besideTasksPerS?: number;
  /** CPU time of all servers for each task, in µs. */
  readonly serverCpuUs?: number;
  /** Calls that were refused as OVERLOADED and made again. */
  readonly refused: number;
  /** There was nothing left to lease before the time was over. */
  readonly ranDry: boolean;
}

/** What a run came to: all that is needed to draw its report again. */
export interface PaperResult {
  readonly format: 1;
  readonly command: string;
  /** When it began: ISO 8601, UTC. */
  readonly date: string;
  readonly minutes: number;
  /** The figures of a quick run say nothing. */
  readonly quick: boolean;
  /** What of each run counts, in seconds. */
  readonly seconds: number;
  /** With its load average of the last minute before it began. */
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly points: readonly Point[];
  /** Figures that could not be measured to their end, and why. */
  readonly failures: readonly { readonly figure: Figure; readonly error: string }[];
}

/** The file is not one that a run has written; the message says why. */
class UnreadableResultError extends UsageError {}

/** @throws UnreadableResultError */
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
