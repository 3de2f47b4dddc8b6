import { chmod, mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errorOf, failureOf } from './rocks-errors.ts';

/** The files in the directory hold payloads. */
const OWNER_ONLY = 0o700;
const OTHERS = 0o077;

/**
 * Takes the rights of other users to the directory away. Resolves with false if the system refuses it, for example because the
 * directory has another owner.
 */
export async function closeToOthers(dir: string): Promise<boolean> {
  const { mode } = await stat(dir);
  if ((mode & OTHERS) === 0) return true;
  try {
    await chmod(dir, OWNER_ONLY);
    return true;
  } catch {
    return false;
  }
}

/**
 * Creates one directory at a time. Node's `recursive` option loops forever if a parent exists but accepts no directory, as in
 * `/proc`.
 */
export async function makeDirectory(dir: string): Promise<void> {
  try {
    await makeWithParents(dir);
  } catch (error) {
    const { kind, message } = failureOf(error);
    throw errorOf({ kind, message: `the directory cannot be created: ${message}` }, dir);
  }
}

async function makeWithParents(dir: string): Promise<void> {
  try {
    await mkdir(dir, { mode: OWNER_ONLY });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const parent = dirname(dir);
    // If the parent exists, another problem has caused the error.
    if (code !== 'ENOENT' || parent === dir || (await exists(parent))) throw error;
    await makeWithParents(parent);
    await makeWithParents(dir);
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
