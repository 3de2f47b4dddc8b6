import { Refusal } from '@taskmaster/server/domain';
import type { Clock } from '@taskmaster/server/ports';
import type { EngineState } from '../engine-state.ts';
import type { Reaper } from '../operations/reaper.ts';
import { removeEnded } from './subscribe.ts';

/** Time between two sweeps. */
export const SUBSCRIPTION_SWEEP_MS = 1_000;

interface SubscriptionSweepDeps {
  /** Undefined while nothing can be written. */
  readonly memory: () => EngineState | undefined;
  readonly clock: Pick<Clock, 'now'>;
  readonly reaper: Pick<Reaper, 'reap'>;
}

/** Removes subscriptions that have ended, and their queues, in the background. */
export class SubscriptionSweep {
  readonly #deps: SubscriptionSweepDeps;

  constructor(deps: SubscriptionSweepDeps) {
    this.#deps = deps;
  }

  /** Call it again when it has ended. */
  async look(): Promise<void> {
    const { memory: writable, clock, reaper } = this.#deps;
    const memory = writable();
    for (const key of memory?.subscriptions.ended(clock.now()) ?? []) {
      if (memory === undefined || memory !== writable()) return;
      try {
        await removeEnded(memory, key, reaper);
      } catch (error) {
        // The partition is moving, or the disk refuses writes. The next sweep tries again.
        if (!(error instanceof Refusal)) throw error;
      }
    }
  }
}
