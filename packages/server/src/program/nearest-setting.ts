import { closestMatch } from 'leven';
import type { SettingsTable } from './settings.ts';

const PREFIX = 'TASKMASTER_';

/** Limit of the wrong letters in a name that is still recognized: one in four, at most two. */
const maxTypingErrors = (name: string): number => Math.min(2, Math.floor(name.length / 4));

/**
 * The setting that an unknown name in a file most likely means: one with almost the same name, or with the same last part in
 * another section. Undefined if no name is near.
 */
export function nearestSetting({ all }: SettingsTable<unknown>, name: string): string | undefined {
  const lowerCase = name.toLowerCase();
  const byLowerCase = new Map(all.map((setting) => [setting.name.toLowerCase(), setting.name]));
  const nearest = closestMatch(lowerCase, [...byLowerCase.keys()], { maxDistance: maxTypingErrors(name) });
  if (nearest !== undefined) return byLowerCase.get(nearest);
  const lastPart = lowerCase.slice(lowerCase.lastIndexOf('.') + 1);
  return all.find(({ path }) => path.at(-1)?.toLowerCase() === lastPart)?.name;
}

/** The variable that an unknown variable most likely means. Undefined if the name is known, or near to none. */
export function nearestVariable({ all }: SettingsTable<unknown>, name: string): string | undefined {
  if (!name.startsWith(PREFIX)) return undefined;
  const known = all.map(({ env }) => env);
  if (known.includes(name)) return undefined;
  return closestMatch(name, known, { maxDistance: maxTypingErrors(name.slice(PREFIX.length)) });
}
