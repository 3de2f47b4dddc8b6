import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { payload } from '../load/payload.ts';

const opened = new Map<string, Promise<FileHandle>>();

/** Appends one payload to a file of a directory and syncs it: what the disk takes for that at least. */
export async function openSyncedFile(dir: string): Promise<() => Promise<number>> {
  let opening = opened.get(dir);
  if (opening === undefined) {
    opening = open(join(dir, 'synced'), 'a');
    opened.set(dir, opening);
  }
  const file = await opening;
  return async () => {
    await file.write(payload());
    await file.datasync();
    return 1;
  };
}
