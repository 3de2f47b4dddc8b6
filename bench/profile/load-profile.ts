import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoadWindow } from '../row.ts';
import { readProfile, type ThreadTimes } from './cpu-profile.ts';

/** Where the time of all tasks of one load went. */
export interface LoadProfile {
  readonly of: string;
  readonly tasks: number;
  /** The busiest first. */
  readonly threads: readonly ThreadTimes[];
}

/**
 * Reads the profiles that a row's processes left in a directory, load by load: a row has several, each with processes of
 * its own, and only what a thread did during a load belongs to that load's tasks.
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
