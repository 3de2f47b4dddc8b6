import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock } from './clock.ts';

/** Does work so long after it has ended the last time, until it is cancelled; `failed` hears what it threw. */
export function repeat(
  clock: Clock,
  everyMs: number,
  work: () => Promise<void>,
  failed: (error: unknown) => void,
): CancelTimer {
  let cancel: CancelTimer = () => {};
  let cancelled = false;
  const arm = (): void => {
    if (cancelled) return;
    cancel = clock.at((clock.now() + everyMs) as Instant, () => {
      work().catch(failed).finally(arm);
    });
  };
  arm();
  return () => {
    cancelled = true;
    cancel();
  };
}
