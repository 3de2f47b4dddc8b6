import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoadWindow } from '../row.ts';
import { readProfile, type ThreadTimes } from './cpu-profile.ts';

/** How the time of all tasks of one load was used. */
export interface LoadProfile {
  readonly of: string;
  readonly tasks: number;
  /** Threads, the busiest first. */
  readonly threads: readonly ThreadTimes[];
}

/**
 * Reads the profiles of a row's processes in a directory, for each load. A row has several loads, each with its own processes.
 * Only the work of a thread during a load counts for that load's tasks.
 */
export async function readLoadProfiles(dir: string, windows: readonly LoadWindow[]): Promise<LoadProfile[]> {
  const files = (await readdir(dir)).filter((file) => file.endsWith('.cpuprofile')).sort();
  const loads = [...Map.groupBy(windows, (window) => window.of)];
  const byFile = await Promise.all(
    files.map((file) =>
      readProfile(
        join(dir, file),
        loads.map(([, ofLoad]) => ofLoad),
      ),
    ),
  );
  return loads.map(([of, ofLoad], load) => ({
    of,
    tasks: ofLoad.reduce((sum, { tasks }) => sum + tasks, 0),
    threads: byFile.flatMap((times) => times[load] ?? []).sort((a, b) => b.busyUs - a.busyUs),
  }));
}
