import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionSource } from './partition-source.ts';

/** When a partition is begun again after a temporary error. */
export interface Retry {
  /** First and longest wait before a repetition, in ms. The wait doubles. */
  readonly backoffMs: { readonly initial: number; readonly max: number };
  /** Ends with the error if the source has not begun to answer for this time, in ms. */
  readonly giveUpAfterMs: number;
  /** Ends with the error if the stream of a partition has broken this often. */
  readonly maxBroken: number;
}

/** An attempt calls `begun` when the source begins to answer. */
type Attempt<T> = (begun: () => void) => Promise<T>;

/** Repeats an attempt after temporary errors. */
export async function retried<T>(
  { backoffMs, giveUpAfterMs, maxBroken }: Retry,
  signal: AbortSignal,
  source: Pick<PartitionSource, 'isTemporary'>,
  attempt: Attempt<T>,
): Promise<T> {
  let silentSince = performance.now();
  let broken = 0;
  let wait = backoffMs.initial;
  for (;;) {
    let hasBegun = false;
    try {
      return await attempt(() => {
        hasBegun = true;
      });
    } catch (error) {
      signal.throwIfAborted();
      if (!source.isTemporary(error)) throw error;
      if (hasBegun) {
        broken++;
        silentSince = performance.now();
        wait = backoffMs.initial;
      }
      if (broken >= maxBroken || performance.now() - silentSince >= giveUpAfterMs) throw error;
      await sleep(wait, undefined, { signal });
      wait = Math.min(backoffMs.max, wait * 2);
    }
  }
}
