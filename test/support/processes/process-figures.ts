import { readdirSync, readFileSync } from 'node:fs';

/** True if `figuresOf` works here: it needs Linux. */
export const hasFigures = process.platform === 'linux';

export interface ProcessFigures {
  /** Memory in RAM, in bytes. */
  readonly rssBytes: number;
  /** Processor time of all threads since the start, in ms. */
  readonly cpuMs: number;
  /** Open files and sockets. */
  readonly descriptors: number;
}

/** Linux reports processor time in ticks of a hundredth of a second. */
const TICKS_PER_S = 100;

/** The resources that another process uses now. */
export function figuresOf(pid: number): ProcessFigures {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The process name, in brackets, may contain any characters.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    rssBytes: 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]),
    cpuMs: (1000 * ticks) / TICKS_PER_S,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}
