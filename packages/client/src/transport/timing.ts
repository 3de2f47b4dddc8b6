/** Cancels a timer. It does nothing after the timer has fired. */
export type CancelTimer = () => void;

/** Clock and timers of the client. Tests replace them. */
export interface Timing {
  /** Monotonic time in ms, the same in all threads of the process. It is not related to the time of day. */
  now(): number;
  /** Calls back once after this time, at most `MAX_TIMER_MS`. Only a timer with `hold` keeps the process alive. */
  after(delayMs: number, callback: () => void, hold?: boolean): CancelTimer;
}

/** Longest delay of a timer, in ms. Longer waits need several timers. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The monotonic clock of the process. `performance.now()` has another zero in each thread. */
export const systemTiming: Timing = {
  now: () => Number(process.hrtime.bigint()) / 1e6,
  after(delayMs, callback, hold = false) {
    // Node.js warns of a negative delay: a deadline may have passed, for example.
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs), MAX_TIMER_MS));
    if (!hold) timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves when the work has settled, or after this time. It never rejects. */
export async function waitFor(timing: Timing, work: Promise<unknown>, atMostMs: number): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const cancel = timing.after(atMostMs, resolve, true);
  await Promise.race([Promise.allSettled([work]), over]);
  cancel();
}

/** Resolves after this time. Rejects with the reason of the signal if it is aborted before. */
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
