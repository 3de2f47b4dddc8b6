/** Work leased ahead is at most what the handlers do in this time: enough to hide a request, too little to hoard. */
const AHEAD_MS = 100;

/**
 * How many tasks to lease beyond those being handled: what is leased ahead waits, while another worker may be idle.
 * @param meanMs mean time a task takes; undefined before the first one, when nothing is leased ahead.
 */
export function prefetchFor(meanMs: number | undefined, concurrency: number, bound: number): number {
  if (meanMs === undefined) return 0;
  return Math.min(bound, Math.floor((concurrency * AHEAD_MS) / Math.max(meanMs, 1)));
}

/** Mean over recent values: each counts an eighth, what was before the rest. */
export function movingMean(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + (value - mean) / 8;
}
