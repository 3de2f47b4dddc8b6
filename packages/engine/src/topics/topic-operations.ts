import type { EngineHealth } from '../domain/commands.ts';
import type { TopicOperations } from '../domain/topics.ts';
import type { EngineState } from '../engine-state.ts';
import type { Reaper } from '../operations/reaper.ts';
import type { RecordRequests } from '../records/change-records.ts';
import { diskFull } from '../store-refusal.ts';
import { subscribe, unsubscribe } from './subscribe.ts';

interface TopicRequests extends RecordRequests {
  /** Undefined while the engine starts. */
  readonly engineState: () => EngineState | undefined;
  readonly health: () => EngineHealth;
}

/** The operations on topics of an engine. */
export const topicOperations = (
  reaper: Pick<Reaper, 'reap'>,
  { engineState, health, change, read }: TopicRequests,
): TopicOperations => ({
  subscribe: (subscription) =>
    change((engineState) => subscribe(engineState, subscription, health().kind === 'full' ? diskFull() : undefined)),
  unsubscribe: (key) => change((engineState) => unsubscribe(engineState, key, reaper)),
  countOf: (topic) => engineState()?.subscriptions.countOf(topic) ?? 0,
  list: (group, topic) =>
    read(group, async (engineState) => {
      const subscriptions = engineState.subscriptions.list(group, topic, engineState.clock.now());
      await engineState.durable();
      return subscriptions;
    }),
});
