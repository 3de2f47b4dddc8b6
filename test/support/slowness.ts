import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** An idle machine of the kind we test on starts Node in about this time, in ms. */
const START_MS = 60;

/**
 * How many times slower than an idle one this machine is just now, at least 1: bounds of time in tests are multiplied by
 * it, so that they are strict where there is room and do not fail for what other processes do.
 */
export async function slowness(): Promise<number> {
  const begun = performance.now();
  await promisify(execFile)(process.execPath, ['-e', '0']);
  return Math.max(1, (performance.now() - begun) / START_MS);
}
