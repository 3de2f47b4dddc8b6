/** Ends a timer; harmless after it fired. */
export type CancelTimer = () => void;

/** Time as the client knows it; handed in so that tests decide it. */
export interface Timing {
  /** In ms, monotonic, and the same in every thread of the process. Has no relation to the time of day. */
  now(): number;
  /** Calls back once, after so many ms. Unless `hold` is true, a waiting timer does not keep the process alive. */
  after(delayMs: number, callback: () => void, hold?: boolean): CancelTimer;
}

/** Longest delay that timers take; longer waits are made of several. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The process's monotonic clock, not `performance.now()`, whose zero differs from thread to thread. */
export const systemTiming: Timing = {
  now: () => Number(process.hrtime.bigint()) / 1e6,
  after(delayMs, callback, hold = false) {
    const timer = setTimeout(callback, Math.min(delayMs, MAX_TIMER_MS));
    if (!hold) timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves when the work has settled, or after so many ms. What it rejects with is left to others. */
export async function waitFor(timing: Timing, work: Promise<unknown>, atMostMs: number): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const cancel = timing.after(atMostMs, resolve, true);
  await Promise.race([Promise.allSettled([work]), over]);
  cancel();
}

/** Resolves after so many ms, rejects with the signal's reason when it is aborted first. */
export function sleep(timing: Timing, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = timing.after(
      delayMs,
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      },
      true,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
