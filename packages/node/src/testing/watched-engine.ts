import { type Engine, MemoryStore, openEngine } from '@taskmaster/engine';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';

/** What a test does itself instead of the engine: it fails, waits, or gives an answer that would need much work. */
export type Instead = Partial<Omit<Engine, Group>> & { readonly [K in Group]?: Partial<Engine[K]> };

/** Members of the engine that are operations in a group. */
const groups = ['updates', 'schedules', 'topics', 'settings'] as const;
type Group = (typeof groups)[number];

/** An operation that the engine was asked for, as in `leaseTasks` or `schedules.put`. */
interface Asked {
  readonly operation: string;
  readonly command: unknown;
}

export type WatchedEngine = Engine & { readonly asked: Asked[] };

/** These answer at once, and are not recorded. */
const NOT_RECORDED = new Set(['figures', 'queuesWithTasks', 'countOf', 'stop']);

/** An engine that records what it is asked for. Something else may be done instead of some operations. */
export function watched(engine: Engine, instead: Instead = {}): WatchedEngine {
  const asked: Asked[] = [];
  const watch = <T extends object>(target: T, changed: object, prefix: string): T =>
    new Proxy(target, {
      get(_, name) {
        if (name === 'asked') return asked;
        const group = groups.find((key) => key === name);
        if (group !== undefined) return watch(engine[group], instead[group] ?? {}, `${group}.`);
        // Not through the proxy, which has none of the engine's private fields.
        const value: unknown = Reflect.get(name in changed ? changed : target, name);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]): unknown => {
          if (!NOT_RECORDED.has(String(name))) asked.push({ operation: `${prefix}${String(name)}`, command: given[0] });
          return Reflect.apply(value, target, given);
        };
      },
    });
  return watch(engine, instead, '') as WatchedEngine;
}

/** A watched engine on a store in memory. Its time stands still, so it needs no end. */
export async function openWatchedEngine(instead: Instead = {}): Promise<WatchedEngine> {
  const random = new SeededRandom(1);
  return watched(await openEngine({ store: new MemoryStore(), clock: new VirtualClock(), random }), instead);
}
