import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoadWindow } from '../row.ts';
import { readProfile, type ThreadTimes } from './cpu-profile.ts';

const FUNCTIONS_SHOWN = 25;
/** Threads that did less than this for each task are left out, in µs. */
const LEAST_US = 0.5;

/** Says where the time of one task went, thread by thread, from the profiles that the row's processes left. */
export async function printProfile(row: string, dir: string, windows: readonly LoadWindow[]): Promise<void> {
  const tasks = windows.reduce((sum, window) => sum + window.tasks, 0);
  if (tasks === 0) return;
  const files = (await readdir(dir)).filter((file) => file.endsWith('.cpuprofile'));
  const threads = await Promise.all(files.map((file) => readProfile(join(dir, file), windows)));
  const shown = threads.filter(({ busyUs }) => busyUs / tasks >= LEAST_US).sort((a, b) => b.busyUs - a.busyUs);
  print(`\nprofile of ${row}: ${tasks.toLocaleString('en')} tasks; µs for each; files in ${dir}`);
  for (const thread of shown) printThread(thread, tasks);
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

/** On standard error: standard output belongs to the report. */
function print(text: string): void {
  process.stderr.write(`${text}\n`);
}
