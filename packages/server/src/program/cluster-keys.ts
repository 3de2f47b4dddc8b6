import { readFileSync, statSync } from 'node:fs';
import { InvalidConfigError } from './config-sections.ts';

/** Shorter keys can be guessed. */
const MIN_KEY_CHARACTERS = 16;

/** The rights of users that are neither the owner nor in the group. A group may read: Kubernetes mounts Secrets so. */
const OTHERS = 0o007;

/** Reads keys from a file with one key per line. Lines that begin with # are comments. Throws `InvalidConfigError`. */
export function readClusterKeys(keyFile: string): readonly string[] {
  if (keyFile === '') return [];
  let text: string;
  try {
    text = readFileSync(keyFile, 'utf8');
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new InvalidConfigError([`cluster.keyFile: cannot be read: ${problem}`]);
  }
  if ((statSync(keyFile).mode & OTHERS) !== 0 && process.platform !== 'win32') {
    throw new InvalidConfigError([`cluster.keyFile: every user can access ${keyFile}: change its mode to 0600`]);
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
