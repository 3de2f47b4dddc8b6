import type { LoadWindow } from '../row.ts';
import type { ThreadTimes } from './cpu-profile.ts';
import { readLoadProfiles } from './load-profile.ts';

const FUNCTIONS_SHOWN = 25;
/** Threads with less time for each task are left out, in µs. */
const LEAST_US = 0.5;

/** Prints how the time of one task was used, by load and thread, from the profiles of the row's processes. */
export async function printProfile(row: string, dir: string, windows: readonly LoadWindow[]): Promise<void> {
  for (const { of, tasks, threads } of await readLoadProfiles(dir, windows)) {
    print(`\nprofile of ${row}, ${of}: ${tasks.toLocaleString('en')} tasks; µs for each; files in ${dir}`);
    for (const thread of threads) if (thread.busyUs / tasks >= LEAST_US) printThread(thread, tasks);
  }
}

function printThread({ thread, pid, idleUs, busyUs, areas, functions }: ThreadTimes, tasks: number): void {
  const share = (us: number): string => `${((us * 100) / busyUs).toFixed(1).padStart(5)} %`;
  const line = (name: string, us: number): void =>
    print(`  ${(us / tasks).toFixed(2).padStart(8)} ${share(us)}  ${name}`);
  const busy = ((busyUs * 100) / (busyUs + idleUs)).toFixed(0);
  print(`\n${thread} (process ${pid}): ${(busyUs / tasks).toFixed(1)} µs a task, ${busy} % busy`);
  for (const [area, us] of areas) line(area, us);
  print('  by function:');
  for (const [name, us] of functions.slice(0, FUNCTIONS_SHOWN)) line(name, us);
}

/** Prints on standard error, because standard output belongs to the report. */
function print(text: string): void {
  process.stderr.write(`${text}\n`);
}
