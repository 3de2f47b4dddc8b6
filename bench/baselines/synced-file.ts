import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { payload } from '../load/payload.ts';

const opened = new Map<string, Promise<FileHandle>>();

/** Appends one payload to a file in a directory and syncs it: the least work of a durable write. */
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
