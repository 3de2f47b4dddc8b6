import { readFileSync, statfsSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';

/** Linux counts the CPU time of processes in hundredths of a second, whatever the kernel's own tick is. */
const TICK_MS = 10;
/** Where `utime` is in /proc/PID/stat, counted from behind the command's name; `stime` follows it. */
const UTIME_FIELD = 11;
const TMPFS = 0x01021994;

/** The load average of the last minute. */
export function loadAverage(): number {
  return round(loadavg()[0] ?? 0, 2);
}

/** One line about what is measured on. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown CPU';
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} × ${model}, ${gib} GiB, Node ${process.version}, load ${loadAverage()}`;
}

/** CPU time of a process in ms: of all its threads together, and of its main thread, which runs the event loop. */
export interface CpuTime {
  readonly all: number;
  readonly main: number;
}

/** CPU time a process has used; undefined where the system does not tell. */
export function cpuTimeOf(pid: number): CpuTime | undefined {
  const all = readProc(pid, 'stat');
  const main = readProc(pid, `task/${pid}/stat`);
  return all === undefined || main === undefined ? undefined : { all: cpuMsIn(all), main: cpuMsIn(main) };
}

/** Memory of a process that is in RAM now, and at its worst so far, in bytes; undefined where the system does not tell. */
export function memoryOf(pid: number): { readonly rss: number; readonly peak: number } | undefined {
  const status = readProc(pid, 'status');
  if (status === undefined) return undefined;
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { rss: kib('VmRSS'), peak: kib('VmHWM') };
}

/** Whether a directory is in memory: a sync there costs nothing, and shows nothing. */
export function isInMemory(dir: string): boolean {
  return statfsSync(dir).type === TMPFS;
}

export function round(value: number, digits: number): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}

function cpuMsIn(stat: string): number {
  // The command's name may hold spaces and parentheses; the fields begin behind its last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[UTIME_FIELD]) + Number(fields[UTIME_FIELD + 1])) * TICK_MS;
}

function readProc(pid: number, file: string): string | undefined {
  if (process.platform !== 'linux') return undefined;
  return readFileSync(`/proc/${pid}/${file}`, 'utf8');
}
