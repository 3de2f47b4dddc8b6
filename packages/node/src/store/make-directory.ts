import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errorOf, failureOf } from './rocks-errors.ts';

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
    await mkdir(dir);
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
