import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { LoadWindow } from '../row.ts';
import { areaOf, IDLE, NATIVE } from './areas.ts';

/** The parts of a .cpuprofile that are read here. Times are in µs of the monotonic clock. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Time of one thread within the windows, in µs. */
export interface ThreadTimes {
  /** The purpose of the thread. */
  readonly thread: string;
  readonly pid: number;
  readonly idleUs: number;
  readonly busyUs: number;
  /** Time by area, the largest first. */
  readonly areas: readonly (readonly [string, number])[];
  /** Time by function, the largest first. C++ functions count for their callers. */
  readonly functions: readonly (readonly [string, number])[];
}

interface Place {
  readonly area: string;
  readonly label: string;
}

/**
 * Reads the profile of one thread, which Node writes with --cpu-prof, and sums up the time within the windows of each load. Files
 * are large, so each is read once for all loads.
 */
export async function readProfile(
  file: string,
  loads: readonly (readonly LoadWindow[])[],
): Promise<readonly ThreadTimes[]> {
  const profile = JSON.parse(await readFile(file, 'utf8')) as CpuProfile;
  const places = placesOf(profile);
  const who = { thread: threadOf(profile), pid: Number(basename(file).split('.')[3]) };
  return loads.map((windows) => ({ ...who, ...timesWithin(profile, places, windows) }));
}

function timesWithin(
  profile: CpuProfile,
  places: ReadonlyMap<number, Place>,
  windows: readonly LoadWindow[],
): Omit<ThreadTimes, 'thread' | 'pid'> {
  const areas = new Map<string, number>();
  const functions = new Map<string, number>();
  let at = profile.startTime;
  for (const [i, sample] of profile.samples.entries()) {
    at += profile.timeDeltas[i] ?? 0;
    // A sample stands for the time until the next one.
    const lasted = profile.timeDeltas[i + 1] ?? 0;
    const place = places.get(sample);
    if (place === undefined || !windows.some(({ beganUs, endedUs }) => at >= beganUs && at < endedUs)) continue;
    add(areas, place.area, lasted);
    add(functions, place.label, lasted);
  }
  const idleUs = areas.get(IDLE) ?? 0;
  areas.delete(IDLE);
  functions.delete(IDLE);
  return {
    idleUs,
    busyUs: [...areas.values()].reduce((sum, us) => sum + us, 0),
    areas: sorted(areas),
    functions: sorted(functions),
  };
}

/** The area and name of every place in the call tree. */
function placesOf(profile: CpuProfile): ReadonlyMap<number, Place> {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const places = new Map<number, Place>();
  const visit = (id: number, caller: Place): void => {
    const node = nodes.get(id);
    if (node === undefined) return;
    const { functionName, url, lineNumber } = node.callFrame;
    const area = areaOf(functionName, url, caller.area);
    const place = { area, label: labelOf(functionName, url, lineNumber, caller, area) };
    places.set(id, place);
    for (const child of node.children ?? []) visit(child, place);
  };
  const [root] = profile.nodes;
  if (root !== undefined) visit(root.id, { area: NATIVE, label: NATIVE });
  return places;
}

/** The function with its file and line. A function without a source has the label of its caller. */
function labelOf(functionName: string, url: string, lineNumber: number, caller: Place, area: string): string {
  if (url !== '') return `${functionName || 'anonymous'} ${basename(url)}:${lineNumber + 1}`;
  return functionName.startsWith('(') ? area : caller.label;
}

/** The purpose of a thread, from the files that it runs. */
function threadOf({ nodes }: CpuProfile): string {
  const runs = (file: string): boolean => nodes.some(({ callFrame }) => callFrame.url.includes(file));
  if (runs('rocks-writer-thread')) return 'store writer';
  if (runs('rocks-reader-thread')) return 'store reader';
  if (runs('renewer-thread')) return 'lease renewer';
  if (runs('noop-server')) return 'no-op server';
  if (runs('load/generator')) return 'load generator';
  if (runs('/packages/engine/')) return 'node';
  return 'other';
}

function add(sums: Map<string, number>, key: string, us: number): void {
  sums.set(key, (sums.get(key) ?? 0) + us);
}

function sorted(sums: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...sums].sort(([, a], [, b]) => b - a);
}
