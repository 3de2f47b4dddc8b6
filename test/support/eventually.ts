import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Longest time until the check must hold, in ms. Default 10 s. */
  readonly withinMs?: number;
  /** Between two looks, in ms. Default 10. */
  readonly everyMs?: number;
}

/**
 * Repeats a check until it stops throwing, for what another process does in its own time. Resolves with what the check
 * returns; rejects with the check's last error.
 */
export async function eventually<T>(check: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { withinMs = 10_000, everyMs = 10 } = options;
  const deadline = performance.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() >= deadline) throw error;
      await delay(everyMs);
    }
  }
}
