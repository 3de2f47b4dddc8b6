import { readFileSync } from 'node:fs';
import { InvalidConfigError } from './config-sections.ts';

/** Shorter ones can be guessed. */
const KEY_CHARACTERS = 16;

/** The keys in a file, one in a line; lines that begin with # are remarks. Throws `InvalidConfigError`. */
export function readClusterKeys(keyFile: string): readonly string[] {
  if (keyFile === '') return [];
  let text: string;
  try {
    text = readFileSync(keyFile, 'utf8');
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new InvalidConfigError([`cluster.keyFile: cannot be read: ${problem}`]);
  }
  const keys = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (keys.length === 0) throw new InvalidConfigError([`cluster.keyFile: ${keyFile} has no key`]);
  if (keys.some((key) => key.length < KEY_CHARACTERS)) {
    throw new InvalidConfigError([`cluster.keyFile: a key in ${keyFile} is shorter than ${KEY_CHARACTERS} characters`]);
  }
  return keys;
}
