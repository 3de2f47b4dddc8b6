import type { EngineHealth, TopicOperations } from '@taskmaster/server/domain';
import type { EngineState } from '../engine-state.ts';
import type { Reaper } from '../operations/reaper.ts';
import { diskFull } from '../store-refusal.ts';
import { subscribe, unsubscribe } from './subscribe.ts';

interface Requests {
  /** Undefined while the engine starts. */
  readonly memory: () => EngineState | undefined;
  /** Runs a request that changes a group. */
  readonly change: <T>(work: (memory: EngineState, health: EngineHealth) => Promise<T>) => Promise<T>;
  /** Runs a request that reads of a group. */
  readonly read: <T>(group: string, work: (memory: EngineState) => Promise<T>) => Promise<T>;
}

/** The operations on topics of an engine. */
export const topicOperations = (reaper: Pick<Reaper, 'reap'>, { memory, change, read }: Requests): TopicOperations => ({
  subscribe: (subscription) =>
    change((memory, { kind }) => subscribe(memory, subscription, kind === 'full' ? diskFull() : undefined)),
  unsubscribe: (key) => change((memory) => unsubscribe(memory, key, reaper)),
  countOf: (topic) => memory()?.subscriptions.countOf(topic) ?? 0,
  list: (group, topic) =>
    read(group, async (memory) => {
      const subscriptions = memory.subscriptions.list(group, topic, memory.clock.now());
      await memory.durable();
      return subscriptions;
    }),
});
