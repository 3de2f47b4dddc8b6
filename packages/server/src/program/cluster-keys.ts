import { readPrivateFile } from '../ports/private-file.ts';
import { InvalidConfigError } from './config-sections.ts';

/** Shorter keys can be guessed. */
const MIN_KEY_CHARACTERS = 16;

/** Reads keys from a file with one key per line. Lines that begin with # are comments. Throws `InvalidConfigError`. */
export function readClusterKeys(keyFile: string): readonly string[] {
  if (keyFile === '') return [];
  let text: string;
  try {
    text = readPrivateFile(keyFile);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new InvalidConfigError([`cluster.keyFile: cannot be used: ${problem}`]);
  }
  const keys = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (keys.length === 0) throw new InvalidConfigError([`cluster.keyFile: ${keyFile} contains no key`]);
  if (keys.some((key) => key.length < MIN_KEY_CHARACTERS)) {
    throw new InvalidConfigError([
      `cluster.keyFile: a key in ${keyFile} is shorter than ${MIN_KEY_CHARACTERS} characters`,
    ]);
  }
  return keys;
}
