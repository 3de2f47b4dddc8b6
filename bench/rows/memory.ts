import { setTimeout as delay } from 'node:timers/promises';
import { cpuTimeOf, memoryOf } from '../machine.ts';
import { type Bench, CannotRunError } from '../row.ts';

/** A process that uses less CPU time than this, in percent of a core, is idle. */
const IDLE_PERCENT = 5;
/** Limit of the wait for an idle process, in ms: a profiled process is never idle. */
const MOST_WAIT_MS = 60_000;

export function memoryNow(pid: number): { readonly rss: number; readonly peak: number } {
  const found = memoryOf(pid);
  if (found === undefined) throw new CannotRunError('the memory of a process can only be read on Linux');
  return found;
}

/** CPU time of a process so far, in ms. */
function cpuTimeNow(pid: number): number {
  const time = cpuTimeOf(pid);
  if (time === undefined) throw new CannotRunError('the CPU time of a process can only be read on Linux');
  return time.all;
}

/** CPU time of a process over `ms`, in percent of one core. */
export async function cpuPercent(pid: number, ms: number): Promise<number> {
  const before = cpuTimeNow(pid);
  const began = performance.now();
  await delay(ms);
  return ((cpuTimeNow(pid) - before) * 100) / (performance.now() - began);
}

/** Resolves when a process has finished its background work: flushes, compactions, garbage collection. */
export async function settled({ scale, progress }: Bench, pid: number, mostMs = MOST_WAIT_MS): Promise<void> {
  const end = performance.now() + mostMs;
  do {
    progress('leaving the node alone');
  } while ((await cpuPercent(pid, scale.settleMs)) > IDLE_PERCENT && performance.now() < end);
}
