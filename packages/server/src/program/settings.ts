import { z } from 'zod';
import type { MemoryDivision, MemoryRefused } from './memory/divide-memory.ts';
import { namesOf, type SettingNames } from './setting-names.ts';

/** For `parse` of zod. By default it compiles a function for each object, which pays only if much is parsed. */
export const ONCE = { jitless: true };

/** One setting with all its names. */
export interface Setting extends SettingNames {
  /** Path in the schema and the file: `['engine', 'cacheBytes']`. */
  readonly path: readonly string[];
  /** `engine.cacheBytes`. */
  readonly name: string;
  readonly about: string;
  readonly default: unknown;
}

/** The settings of one program. */
export interface SettingsTable<C> {
  readonly safeParse: (settings: unknown) => z.ZodSafeParseResult<C>;
  /** The program with an article: `a TaskMaster node`. */
  readonly whose: string;
  /** In the order of the schema. */
  readonly all: readonly Setting[];
  /** Divides the memory of the program. */
  divide(settings: C): MemoryDivision<string> | MemoryRefused;
  /** What the program needs to start and the settings do not have. */
  missing(settings: C): string | undefined;
}

export function settingsTable<S extends z.ZodObject>(
  schema: S,
  whose: string,
  divide: SettingsTable<z.output<S>>['divide'],
  missing: SettingsTable<z.output<S>>['missing'] = () => undefined,
): SettingsTable<z.output<S>> {
  const all = settingsIn(schema, [], schema.parse({}, ONCE));
  return { safeParse: (settings) => schema.safeParse(settings, ONCE), whose, all, divide, missing };
}

export function settingAt(table: SettingsTable<unknown>, path: readonly PropertyKey[]): Setting | undefined {
  const name = path.join('.');
  return table.all.find((setting) => setting.name === name);
}

/** The value at a path of nested objects, or undefined if there is none. */
export function valueAt(tree: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), tree);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function settingsIn(schema: z.ZodObject, path: readonly string[], defaults: unknown): Setting[] {
  return Object.entries(schema.shape).flatMap(([key, type]) => {
    const inner = type instanceof z.ZodPrefault ? type.unwrap() : type;
    const at = [...path, key];
    return inner instanceof z.ZodObject ? settingsIn(inner, at, defaults) : [settingOf(at, inner, defaults)];
  });
}

function settingOf(path: readonly string[], type: z.core.$ZodType, defaults: unknown): Setting {
  return {
    path,
    name: path.join('.'),
    ...namesOf(path),
    about: z.globalRegistry.get(type)?.description ?? '',
    default: valueAt(defaults, path),
  };
}
