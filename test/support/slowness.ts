import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Time in which an idle machine of the usual kind starts Node, in ms. */
const START_MS = 60;

/**
 * How many times slower than an idle machine this one is now, at least 1. Tests multiply time limits by it, so that limits
 * are strict on an idle machine and do not fail because of other processes.
 */
export async function slowness(): Promise<number> {
  const begun = performance.now();
  await promisify(execFile)(process.execPath, ['-e', '0']);
  return Math.max(1, (performance.now() - begun) / START_MS);
}
