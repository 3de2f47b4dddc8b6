import { randomBytes } from 'node:crypto';
import { open, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

export const RESERVE_FILE = 'reserve';
const CHUNK_BYTES = 1024 * 1024;
/** Bytes between two syncs while the file is filled. More unsynced bytes would delay the syncs of the database. */
const SYNC_EVERY_BYTES = 8 * 1024 * 1024;

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/**
 * A file that is deleted when the disk is full, so that there is space for writes that free space. Its bytes do not compress,
 * because some file systems would otherwise reserve no space for it.
 */
export class ReserveFile {
  readonly #path: string;
  readonly bytes: number;

  constructor(dir: string, bytes: number) {
    this.#path = join(dir, RESERVE_FILE);
    this.bytes = bytes;
  }

  /** True if the file exists with its full size. */
  async exists(): Promise<boolean> {
    try {
      return (await stat(this.#path)).size === this.bytes;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  /** Creates the file. Returns false and leaves no file if there is not enough space or the signal is aborted. */
  async take(signal: AbortSignal): Promise<boolean> {
    await this.release();
    const draft = `${this.#path}.new`;
    try {
      await this.#fill(draft, signal);
      await rename(draft, this.#path);
      return true;
    } catch (error) {
      await removeIfThere(draft);
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOSPC' || code === 'EDQUOT' || signal.aborted) return false;
      throw error;
    }
  }

  /** Deletes the file. */
  async release(): Promise<void> {
    await removeIfThere(this.#path);
  }

  async #fill(path: string, signal: AbortSignal): Promise<void> {
    const chunk = randomBytes(Math.min(CHUNK_BYTES, this.bytes));
    const file = await open(path, 'w');
    try {
      for (let done = 0; done < this.bytes; done += chunk.length) {
        signal.throwIfAborted();
        await file.writeFile(chunk.subarray(0, Math.min(this.bytes - done, chunk.length)));
        if (done % SYNC_EVERY_BYTES === 0) await file.datasync();
      }
      await file.datasync(); // only now is it certain that the file system has the space
    } finally {
      await file.close();
    }
  }
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
