import { sleep, type Timing } from '@taskmaster/client/internal';

export interface OpenLoopOptions {
  readonly timing: Timing;
  /** Time from one operation to the next, in ms. */
  readonly intervalMs: number;
  /** When the first operation is due, in ms from now. */
  readonly offsetMs: number;
  readonly durationMs: number;
  /** Further operations begin late. */
  readonly maxInFlight: number;
  /** Ends the load early. */
  readonly signal: AbortSignal;
}

/**
 * Begins operations when they are due, whether or not earlier ones have ended. An operation that begins late gets the instant
 * at which it was due. So a pause of the server shows in the latency of every operation that was due meanwhile.
 * Resolves with the number of operations that were due but did not begin in time.
 */
export async function runOpenLoop(
  options: OpenLoopOptions,
  operate: (dueAt: number) => Promise<void>,
): Promise<number> {
  const { timing, intervalMs, offsetMs, durationMs, maxInFlight, signal } = options;
  const start = timing.now() + offsetMs;
  const end = start - offsetMs + durationMs;
  const running = new Set<Promise<void>>();
  let freed = Promise.withResolvers<void>();
  let next = 0;
  const dueAt = (): number => start + next * intervalMs;
  while (!signal.aborted && dueAt() < end && timing.now() < end) {
    const early = dueAt() - timing.now();
    if (early > 0) {
      await sleep(timing, early, signal).catch(() => undefined);
      continue;
    }
    if (running.size >= maxInFlight) {
      freed = Promise.withResolvers();
      const over = new AbortController();
      const waiting = sleep(timing, end - timing.now(), AbortSignal.any([signal, over.signal])).catch(() => undefined);
      await Promise.race([freed.promise, waiting]);
      over.abort();
      continue;
    }
    const operation = operate(dueAt()).finally(() => {
      running.delete(operation);
      freed.resolve();
    });
    running.add(operation);
    next++;
  }
  const stoppedAt = Math.min(timing.now(), end);
  const due = Math.max(0, Math.ceil((stoppedAt - start) / intervalMs));
  await Promise.all(running);
  return Math.max(0, due - next);
}

export interface ClosedLoopOptions {
  readonly timing: Timing;
  /** Operations in progress. */
  readonly depth: number;
  readonly durationMs: number;
  /** Ends the load early. */
  readonly signal: AbortSignal;
}

/** Pause after an operation that failed, so that a server that refuses quickly is not flooded. In ms. */
const PAUSE_AFTER_FAILURE_MS = 50;

/** Keeps `depth` operations in progress. Each begins when another one has ended. A failed operation resolves with false. */
export async function runClosedLoop(
  { timing, depth, durationMs, signal }: ClosedLoopOptions,
  operate: () => Promise<boolean>,
): Promise<void> {
  const end = timing.now() + durationMs;
  const lane = async (): Promise<void> => {
    while (!signal.aborted && timing.now() < end) {
      if (await operate()) continue;
      await sleep(timing, PAUSE_AFTER_FAILURE_MS, signal).catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: depth }, lane));
}
