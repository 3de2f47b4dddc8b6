import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { closestMatch } from 'leven';
import type { Document } from 'yaml';
import type { z } from 'zod';
import { InvalidConfigError } from './config-sections.ts';
import { isRecord, type Setting, type SettingsTable, settingAt, valueAt } from './settings.ts';
import { withoutPasswords } from './without-passwords.ts';

const require = createRequire(import.meta.url);

/** Sources of settings. Each source overrides the sources before it. The environment and flags have text values. */
export interface ConfigSources {
  /** Path of a YAML file. Undefined: no file. */
  readonly file?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Values by the name of the setting. */
  readonly flags: ReadonlyMap<string, string>;
}

/** The settings of all sources, with defaults. @throws InvalidConfigError. */
export function loadConfig<C>(table: SettingsTable<C>, sources: ConfigSources): C {
  const file = sources.file === undefined ? {} : readFile(sources.file);
  const merged = structuredClone(file);
  for (const setting of table.all) {
    const value = sources.flags.get(setting.name) ?? sources.env[setting.env];
    if (value !== undefined) setAt(merged, setting.path, value);
  }
  const misspelled = misspelledVariables(table, sources);
  const parsed = table.safeParse(merged);
  const refused = parsed.success ? memoryProblems(table, parsed.data, sources) : [];
  if (parsed.success && misspelled.length === 0 && refused.length === 0) return parsed.data;
  const issues = parsed.success ? [] : parsed.error.issues;
  throw new InvalidConfigError([
    ...misspelled,
    ...refused,
    ...issues.flatMap((issue) => problemsOf(table, issue, sources, merged)),
  ]);
}

/**
 * Variables that differ from one of a setting by a typing error. All other unknown variables are ignored: Kubernetes sets
 * some with the prefix for a service of the name `taskmaster`, and the client has its own.
 */
function misspelledVariables(table: SettingsTable<unknown>, { env }: ConfigSources): string[] {
  return Object.keys(env).flatMap((name) => {
    const nearest = nearestVariable(table, name);
    return nearest === undefined ? [] : [`${name}: unknown setting (in the environment). Did you mean ${nearest}?`];
  });
}

/** The reason why the parts do not fit into the memory of the program, if they do not. */
function memoryProblems<C>(table: SettingsTable<C>, config: C, sources: ConfigSources): string[] {
  const divided = table.divide(config);
  if (divided.kind === 'divided') return [];
  const memory = settingAt(table, ['memory']);
  const origin = memory === undefined ? '' : ` (from ${originOf(memory, sources)})`;
  return [`memory: ${divided.problem}${origin}`];
}

function readFile(path: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new InvalidConfigError([
      `${path}: cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    ]);
  }
  // Loaded only for a file: a program without one starts sooner.
  const { parseDocument } = require('yaml') as typeof import('yaml');
  const document = parseDocument(text);
  const [first] = document.errors;
  if (first !== undefined) throw new InvalidConfigError(document.errors.map(({ message }) => `${path}: ${message}`));
  const content = contentOf(document, path) ?? {};
  if (!isRecord(content)) throw new InvalidConfigError([`${path}: must be a mapping of settings`]);
  return content;
}

/** The library refuses a document whose aliases stand for far more nodes than it has. */
function contentOf(document: Document, path: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new InvalidConfigError([`${path}: ${error instanceof Error ? error.message : String(error)}`]);
  }
}

function setAt(tree: Record<string, unknown>, path: readonly string[], value: string): void {
  const [key, ...rest] = path;
  if (key === undefined) return;
  if (rest.length === 0) {
    tree[key] = value;
    return;
  }
  const inner = tree[key];
  const next = isRecord(inner) ? inner : {};
  tree[key] = next;
  setAt(next, rest, value);
}

function problemsOf(
  table: SettingsTable<unknown>,
  issue: z.core.$ZodIssue,
  sources: ConfigSources,
  merged: unknown,
): string[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const name = [...issue.path, key].join('.');
      const nearest = nearestSetting(table, name);
      return `${name}: unknown setting (in ${sources.file})${nearest === undefined ? '' : `. Did you mean ${nearest}?`}`;
    });
  }
  const setting = settingAt(table, issue.path);
  if (setting === undefined) {
    // The message about an item of a list shows the item.
    const list = settingAt(table, issue.path.slice(0, -1));
    if (list !== undefined) return [`${list.name}: ${issue.message} (from ${originOf(list, sources)})`];
    return [`${issue.path.join('.')}: ${issue.message} (in ${sources.file})`];
  }
  const value = withoutPasswords(JSON.stringify(valueAt(merged, setting.path)) ?? 'undefined');
  return [`${setting.name}: ${issue.message}, not ${value} (from ${originOf(setting, sources)})`];
}

function originOf(setting: Setting, { file, env, flags }: ConfigSources): string {
  if (flags.has(setting.name)) return setting.flag;
  if (env[setting.env] !== undefined) return setting.env;
  return file ?? 'the default';
}

const PREFIX = 'TASKMASTER_';

/** Limit of the wrong letters in a name that is still recognized: one in four, at most two. */
const maxTypingErrors = (name: string): number => Math.min(2, Math.floor(name.length / 4));

/**
 * The setting that an unknown name in a file most likely means: one with almost the same name, or with the same last part in
 * another section. Undefined if no name is near.
 */
function nearestSetting({ all }: SettingsTable<unknown>, name: string): string | undefined {
  const lowerCase = name.toLowerCase();
  const byLowerCase = new Map(all.map((setting) => [setting.name.toLowerCase(), setting.name]));
  const nearest = closestMatch(lowerCase, [...byLowerCase.keys()], { maxDistance: maxTypingErrors(name) });
  if (nearest !== undefined) return byLowerCase.get(nearest);
  const lastPart = lowerCase.slice(lowerCase.lastIndexOf('.') + 1);
  return all.find(({ path }) => path.at(-1)?.toLowerCase() === lastPart)?.name;
}

/** The variable that an unknown variable most likely means. Undefined if the name is known, or near to none. */
function nearestVariable({ all }: SettingsTable<unknown>, name: string): string | undefined {
  if (!name.startsWith(PREFIX)) return undefined;
  const known = all.map(({ env }) => env);
  if (known.includes(name)) return undefined;
  return closestMatch(name, known, { maxDistance: maxTypingErrors(name.slice(PREFIX.length)) });
}
