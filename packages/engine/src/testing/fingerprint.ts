import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** The names, bytes and times of all files of a directory. Two equal fingerprints: no file was written in between. */
export async function fingerprintOf(dir: string): Promise<ReadonlyMap<string, string>> {
  const fingerprints = new Map<string, string>();
  for (const name of (await readdir(dir, { recursive: true })).sort()) {
    const path = join(dir, name);
    const { ino, mtimeMs, isDirectory } = await stat(path).then((found) => ({
      ...found,
      isDirectory: found.isDirectory(),
    }));
    const bytes = isDirectory
      ? ''
      : createHash('sha256')
          .update(await readFile(path))
          .digest('hex');
    fingerprints.set(name, `${ino} ${mtimeMs} ${bytes}`);
  }
  return fingerprints;
}
