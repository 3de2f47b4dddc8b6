import { sleep, type Timing } from '@taskmaster/client/internal';
import type { Instance, Workload } from '../workload/settings.ts';

/** Pause after an operation that failed, so that a server that refuses quickly is not flooded. In ms. */
const PAUSE_AFTER_FAILURE_MS = 50;

/** Makes an operation that was due at this instant. Resolves with false if it failed. */
type Operate = (dueAt: number) => Promise<boolean>;

/**
 * Makes operations at the pace of a workload. Resolves when all have ended, with the number of those that were due and did not
 * begin. The signal ends it early.
 */
export async function paced(
  { pace, durationMs }: Workload,
  { index, count }: Instance,
  timing: Timing,
  signal: AbortSignal,
  operate: Operate,
): Promise<number> {
  if (pace.kind === 'depth') {
    await closedLoop({ timing, depth: shareOf(pace.depth, index, count), durationMs, signal }, operate);
    return 0;
  }
  // Instances take turns.
  const [intervalMs, offsetMs] = [(1_000 * count) / pace.perSecond, (1_000 * index) / pace.perSecond];
  const maxInFlight = shareOf(pace.maxInFlight, index, count);
  return openLoop({ timing, intervalMs, offsetMs, durationMs, maxInFlight, signal }, operate);
}

/** The part of a whole number that falls to an instance. At least 1. */
function shareOf(all: number, index: number, count: number): number {
  return Math.max(1, Math.floor(all / count) + (index < all % count ? 1 : 0));
}

interface ClosedLoopOptions {
  readonly timing: Timing;
  /** Operations in progress. */
  readonly depth: number;
  readonly durationMs: number;
  readonly signal: AbortSignal;
}

/** Keeps `depth` operations in progress. Each begins when another one has ended. */
async function closedLoop({ timing, depth, durationMs, signal }: ClosedLoopOptions, operate: Operate): Promise<void> {
  const end = timing.now() + durationMs;
  const lane = async (): Promise<void> => {
    while (!signal.aborted && timing.now() < end) {
      if (await operate(timing.now())) continue;
      await sleep(timing, PAUSE_AFTER_FAILURE_MS, signal).catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: depth }, lane));
}

interface OpenLoopOptions {
  readonly timing: Timing;
  /** Time from one operation to the next, in ms. */
  readonly intervalMs: number;
  /** When the first operation is due, in ms from now. */
  readonly offsetMs: number;
  readonly durationMs: number;
  /** Further operations begin late. */
  readonly maxInFlight: number;
  readonly signal: AbortSignal;
}

/**
 * Begins operations when they are due, whether or not earlier ones have ended. An operation that begins late gets the instant
 * at which it was due. So a pause of the server shows in the latency of every operation that was due meanwhile.
 * Resolves with the number of operations that were due and did not begin.
 */
async function openLoop(options: OpenLoopOptions, operate: Operate): Promise<number> {
  const { timing, intervalMs, offsetMs, durationMs, maxInFlight, signal } = options;
  const start = timing.now() + offsetMs;
  const end = start - offsetMs + durationMs;
  const running = new Set<Promise<unknown>>();
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
