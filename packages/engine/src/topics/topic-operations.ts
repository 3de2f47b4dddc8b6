import type { EngineHealth } from '../domain/commands.ts';
import type { TopicOperations } from '../domain/topics.ts';
import type { EngineState } from '../engine-state.ts';
import type { Reaper } from '../operations/reaper.ts';
import { diskFull } from '../store-refusal.ts';
import { subscribe, unsubscribe } from './subscribe.ts';

interface Requests {
  /** Undefined while the engine starts. */
  readonly engineState: () => EngineState | undefined;
  /** Runs a request that changes a group. */
  readonly change: <T>(work: (engineState: EngineState, health: EngineHealth) => Promise<T>) => Promise<T>;
  /** Runs a request that reads of a group. */
  readonly read: <T>(group: string, work: (engineState: EngineState) => Promise<T>) => Promise<T>;
}

/** The operations on topics of an engine. */
export const topicOperations = (
  reaper: Pick<Reaper, 'reap'>,
  { engineState, change, read }: Requests,
): TopicOperations => ({
  subscribe: (subscription) =>
    change((engineState, { kind }) => subscribe(engineState, subscription, kind === 'full' ? diskFull() : undefined)),
  unsubscribe: (key) => change((engineState) => unsubscribe(engineState, key, reaper)),
  countOf: (topic) => engineState()?.subscriptions.countOf(topic) ?? 0,
  list: (group, topic) =>
    read(group, async (engineState) => {
      const subscriptions = engineState.subscriptions.list(group, topic, engineState.clock.now());
      await engineState.durable();
      return subscriptions;
    }),
});
