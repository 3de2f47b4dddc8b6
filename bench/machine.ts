import { readdirSync, readFileSync, statfsSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';

/** Linux reports the CPU time of processes in hundredths of a second, independent of the kernel's own tick. */
const TICK_MS = 10;
/** Index of `utime` in /proc/PID/stat, counted from behind the command's name. `stime` follows it. */
const UTIME_FIELD = 11;
const TMPFS = 0x01021994;

/** The load average of the last minute. */
export function loadAverage(): number {
  return round(loadavg()[0] ?? 0, 2);
}

/** One line about the machine. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown CPU';
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} × ${model}, ${gib} GiB, Node ${process.version}, load ${loadAverage()}`;
}

/** Threads by purpose. The main thread runs the event loop. */
const THREADS = {
  main: /^(MainThread|node)$/,
  /** The store's writer thread. */
  writer: /^rocks-writer/,
  /** RocksDB's flushes and compactions. */
  rocksdb: /^rocksdb:/,
  /** Garbage collection and compilation beside the main thread. */
  v8: /^V8Worker/,
} as const;

type ThreadKind = keyof typeof THREADS;
const threadKinds = Object.keys(THREADS) as readonly ThreadKind[];

/** CPU time of a process: of all threads together, including ended ones, and of some kinds of threads. */
export type CpuTime = Readonly<Record<ThreadKind | 'all', number>>;

export function mapCpuTime(time: CpuTime, map: (value: number, kind: keyof CpuTime) => number): CpuTime {
  return {
    all: map(time.all, 'all'),
    main: map(time.main, 'main'),
    writer: map(time.writer, 'writer'),
    rocksdb: map(time.rocksdb, 'rocksdb'),
    v8: map(time.v8, 'v8'),
  };
}

/** CPU time of a process so far, in ms. Undefined if the system does not report it. */
export function cpuTimeOf(pid: number): CpuTime | undefined {
  const all = readProc(pid, 'stat');
  if (all === undefined) return undefined;
  const time = { all: readStat(all).cpuMs, main: 0, writer: 0, rocksdb: 0, v8: 0 };
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const stat = readProc(pid, `task/${tid}/stat`);
    if (stat === undefined) continue; // it ended meanwhile
    const { name, cpuMs } = readStat(stat);
    const kind = threadKinds.find((one) => THREADS[one].test(name));
    if (kind !== undefined) time[kind] += nanosecondsOf(readProc(pid, `task/${tid}/schedstat`)) ?? cpuMs;
  }
  return time;
}

/** CPU time of several processes together, in ms. Undefined without processes, or if the system does not report it. */
export function cpuTimeOfAll(pids: readonly number[]): CpuTime | undefined {
  const [first, ...others] = pids.map(cpuTimeOf);
  return others.reduce((sum, time) => sum && time && mapCpuTime(sum, (ms, kind) => ms + time[kind]), first);
}

/** Resident memory of a process, now and at its peak, in bytes. Undefined if the system does not report it. */
export function memoryOf(pid: number): { readonly rss: number; readonly peak: number } | undefined {
  const status = readProc(pid, 'status');
  if (status === undefined) return undefined;
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { rss: kib('VmRSS'), peak: kib('VmHWM') };
}

/** True if a directory is in memory: figures of syncs there mean nothing. */
export function isInMemory(dir: string): boolean {
  return statfsSync(dir).type === TMPFS;
}

export function round(value: number, digits: number): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}

function readStat(stat: string): { readonly name: string; readonly cpuMs: number } {
  // The name may contain spaces and parentheses; the fields begin behind the last parenthesis.
  const nameEnd = stat.lastIndexOf(')');
  const fields = stat.slice(nameEnd + 2).split(' ');
  const ticks = Number(fields[UTIME_FIELD]) + Number(fields[UTIME_FIELD + 1]);
  return { name: stat.slice(stat.indexOf('(') + 1, nameEnd), cpuMs: ticks * TICK_MS };
}

/** Time of a thread on a core, in ms: exact, where the kernel keeps the accounts of its scheduler. */
function nanosecondsOf(schedstat: string | undefined): number | undefined {
  return schedstat === undefined ? undefined : Number(schedstat.split(' ')[0]) / 1e6;
}

/** A file in /proc. Undefined without such a process, or without /proc. */
function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}
