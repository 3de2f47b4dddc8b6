import { type Engine, MemoryStore, openEngine } from '@taskmaster/engine';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';

/** What a test does itself instead of the engine: it fails, waits, or gives an answer that would need much work. */
export type Instead = Partial<Omit<Engine, Group>> & { readonly [K in Group]?: Partial<Engine[K]> };

/** Members of the engine that are operations in a group. One that is missing does not compile. */
const groups: { readonly [K in Group]: true } = {
  updates: true,
  schedules: true,
  topics: true,
  settings: true,
  pauses: true,
  limits: true,
  bulkRuns: true,
};
const isGroup = (name: string | symbol): name is Group => name in groups;
type Group = Exclude<
  { [K in keyof Engine]: Engine[K] extends (...given: never[]) => unknown ? never : K }[keyof Engine],
  'partitions' | 'backups' | 'health'
>;

/** An operation that the engine was asked for, as in `leaseTasks` or `schedules.put`. */
interface Asked {
  readonly operation: string;
  readonly command: unknown;
}

export type WatchedEngine = Engine & { readonly asked: Asked[] };

/** These answer at once, and are not recorded. */
const NOT_RECORDED = new Set(['figures', 'queuesWithTasks', 'countOf', 'stop']);

/**
 * An engine that records what it is asked for. Something else may be done instead of some operations. `otherwise`: instead of
 * every operation that is recorded.
 */
export function watched(engine: Engine, instead: Instead = {}, otherwise?: () => Promise<never>): WatchedEngine {
  const asked: Asked[] = [];
  const watch = <T extends object>(target: T, changed: object, prefix: string): T =>
    new Proxy(target, {
      get(_, name) {
        if (name === 'asked') return asked;
        if (prefix === '' && isGroup(name)) return watch<object>(engine[name], instead[name] ?? {}, `${name}.`);
        // Not through the proxy, which has none of the engine's private fields.
        const value: unknown = Reflect.get(name in changed ? changed : target, name);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]): unknown => {
          if (NOT_RECORDED.has(String(name))) return Reflect.apply(value, target, given);
          asked.push({ operation: `${prefix}${String(name)}`, command: given[0] });
          return Reflect.apply(otherwise ?? value, target, given);
        };
      },
    });
  return watch(engine, instead, '') as WatchedEngine;
}

/** A watched engine on a store in memory. Its time stands still, so it needs no end. */
export async function openWatchedEngine(
  instead: Instead = {},
  otherwise?: () => Promise<never>,
): Promise<WatchedEngine> {
  const random = new SeededRandom(1);
  return watched(await openEngine({ store: new MemoryStore(), clock: new VirtualClock(), random }), instead, otherwise);
}
