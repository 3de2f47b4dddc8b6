import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from './make-directory.ts';

/**
 * While a directory has a file with this name, a restore into it has not finished, and no node starts with it. The file is
 * created before anything else, and removed when everything is synced.
 */
export const UNFINISHED_RESTORE_FILE = 'unfinished-restore';

/** Folders that new file systems have. */
const NOT_CONTENT = new Set(['lost+found']);

/**
 * Whether a backup may be restored into a directory: `empty` (or missing), `unfinished` (an earlier restore has not finished),
 * or `used`.
 */
export async function restoreStateOf(dir: string): Promise<'empty' | 'unfinished' | 'used'> {
  const names = await contentOf(dir);
  if (names.length === 0) return 'empty';
  return names.includes(UNFINISHED_RESTORE_FILE) ? 'unfinished' : 'used';
}

/** Marks an empty directory, or removes what an unfinished restore has left. The directory is created if it is missing. */
export async function beginRestore(dir: string): Promise<void> {
  await makeDirectory(dir);
  await using mark = await open(join(dir, UNFINISHED_RESTORE_FILE), 'a');
  await mark.sync();
  await syncDirectory(dir);
  for (const name of await contentOf(dir)) {
    if (name !== UNFINISHED_RESTORE_FILE) await rm(join(dir, name), { recursive: true });
  }
}

/** Removes the mark. Everything else must be synced before. When this resolves, the directory is a node's also after a crash. */
export async function finishRestore(dir: string): Promise<void> {
  await rm(join(dir, UNFINISHED_RESTORE_FILE));
  await syncDirectory(dir);
}

async function contentOf(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).filter((name) => !NOT_CONTENT.has(name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function syncDirectory(dir: string): Promise<void> {
  await using directory = await open(dir, 'r');
  await directory.sync();
}
