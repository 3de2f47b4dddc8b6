import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Longest time until the check must hold, in ms. Default 30 s: it ends a test that waits for nothing, and measures nothing. */
  readonly withinMs?: number;
  /**
   * Time between two checks, in ms. Default: it grows from 10 to 100, because checks take processor time from those that they
   * wait for.
   */
  readonly everyMs?: number;
}

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 100;

/**
 * Repeats a check until it does not throw, to wait for another process. Resolves with the result of the check. Rejects with
 * its last error.
 */
export async function eventually<T>(check: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { withinMs = 30_000, everyMs } = options;
  const deadline = performance.now() + withinMs;
  for (let pauseMs = everyMs ?? FIRST_PAUSE_MS; ; ) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() >= deadline) throw error;
      await delay(pauseMs);
      if (everyMs === undefined) pauseMs = Math.min(pauseMs * 1.25, LONGEST_PAUSE_MS);
    }
  }
}
