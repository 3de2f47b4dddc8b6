import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock } from './clock.ts';

/** Repeats work with a pause after each run, until it is cancelled. Calls `failed` with the errors. */
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
