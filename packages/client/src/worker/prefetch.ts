/**
 * Largest amount of prefetched work, in ms. It hides the latency of a request and does not take many tasks from other workers.
 */
const AHEAD_MS = 100;

/**
 * Number of tasks to prefetch. It is small, because prefetched tasks wait here while another worker may be idle.
 * @param meanMs mean time of a task, in ms. Undefined before the first task has ended; then nothing is prefetched.
 */
export function prefetchFor(meanMs: number | undefined, concurrency: number, bound: number): number {
  if (meanMs === undefined) return 0;
  return Math.min(bound, Math.floor((concurrency * AHEAD_MS) / Math.max(meanMs, 1)));
}

/** Moving mean: a new value counts an eighth. */
export function movingMean(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + (value - mean) / 8;
}
