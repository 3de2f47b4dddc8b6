import type { CallSignal } from '../domain/call-signal.ts';
import type { Instant } from '../domain/ids.ts';
import type { Clock } from './clock.ts';

/** Resolves after `ms`. Rejects with the reason of the signal if it aborts earlier. */
export function sleep(clock: Clock, ms: number, signal?: CallSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.at((clock.now() + ms) as Instant, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort);
  });
}
