import { sleep, type Timing } from '@taskmaster/client/internal';

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
