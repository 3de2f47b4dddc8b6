import { readdirSync, readFileSync } from 'node:fs';

/** Whether `figuresOf` works here: it reads what Linux tells. */
export const hasFigures = process.platform === 'linux';

export interface ProcessFigures {
  /** Memory in RAM, in bytes. */
  readonly rssBytes: number;
  /** Processor time used since its start, over all threads, in ms. */
  readonly cpuMs: number;
  /** Open files and sockets. */
  readonly descriptors: number;
}

/** What Linux counts processor time in, for programs. */
const TICKS_PER_S = 100;

/** What another process uses just now. */
export function figuresOf(pid: number): ProcessFigures {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name, in brackets, may contain anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    rssBytes: 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]),
    cpuMs: (1000 * ticks) / TICKS_PER_S,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}
