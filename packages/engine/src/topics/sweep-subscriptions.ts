import type { SubscriptionKey } from '../domain/topics.ts';
import type { Reaper } from '../operations/reaper.ts';
import type { Sweep } from '../sweeper.ts';
import { removeEnded } from './subscribe.ts';

/** Removes subscriptions that have ended, and their queues. */
export const sweepSubscriptions = (reaper: Pick<Reaper, 'reap'>): Sweep<SubscriptionKey> => ({
  everyMs: 1_000,
  next: ({ subscriptions }) => subscriptions.earliest,
  due: ({ subscriptions, clock }) => subscriptions.ended(clock.now()),
  sweep: (engineState, key) => removeEnded(engineState, key, reaper),
});
