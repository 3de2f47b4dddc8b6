import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import * as nodeFiles from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BackupError } from '../format/errors.ts';
import type { PartRecord } from '../format/manifest.ts';
import { type BackupStore, intactPart, MAX_OBJECTS, tooLong, tooManyObjects } from './place.ts';

/** The calls to the file system. Tests replace some of them. */
export type Files = Pick<
  typeof nodeFiles,
  'copyFile' | 'link' | 'mkdir' | 'open' | 'opendir' | 'realpath' | 'rename' | 'rm' | 'stat'
>;

/** Files with this ending are not complete. A later write of the same object replaces them. */
const UNFINISHED = '.unfinished';

/** Size of the first read of a file that seems to be empty, in bytes. */
const SMALLEST_READ = 4096;

/** Backups have payloads: only their owner may read them, whatever the umask is. */
const OWNER_FILE = 0o600;
const OWNER_DIRECTORY = 0o700;

/** A backup in a directory: one file for each object. A file gets its name when it is complete and synced. */
export class Directory implements BackupStore {
  readonly title: string;
  readonly maxConcurrency = undefined;
  readonly #path: string;
  readonly #files: Files;
  #isMade = false;

  constructor(path: string, files: Files = nodeFiles) {
    this.title = path;
    this.#path = path;
    this.#files = files;
  }

  get store(): BackupStore {
    return this;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    const path = this.#pathOf(name);
    const draft = path + UNFINISHED;
    await this.#doing(`cannot write ${name}`, async () => {
      await this.#make();
      try {
        // A draft may be left over, or be a link or a FIFO: it is replaced, never written through.
        await this.#files.rm(draft, { force: true });
        await using file = await this.#files.open(draft, 'wx', OWNER_FILE);
        await file.writeFile(bytes);
        await file.sync();
      } catch (error) {
        await this.#files.rm(draft, { force: true }).catch(() => {});
        throw error;
      }
      await this.#files.rename(draft, path);
    });
  }

  async finish(name: string, bytes: Uint8Array): Promise<void> {
    await this.#sync();
    await this.write(name, bytes);
    await this.#sync();
  }

  /** Reads regular files and links to them: a FIFO would wait for a writer, and a device need not end. */
  read(name: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return this.#doing(`cannot read ${name}`, async () => {
      try {
        const path = this.#pathOf(name);
        // Opening a device may have an effect, so the kind is checked before, too.
        if (!(await this.#files.stat(path)).isFile()) throw new Error(`${name} is not a regular file`);
        await using file = await this.#files.open(path, constants.O_RDONLY | constants.O_NONBLOCK);
        const found = await file.stat();
        if (!found.isFile()) throw new Error(`${name} is not a regular file`);
        return await bytesOf(file, name, found.size, maxBytes);
      } catch (error) {
        if (isCode(error, 'ENOENT')) return undefined;
        throw error;
      }
    });
  }

  list(): Promise<readonly string[]> {
    return this.#doing('cannot read the directory', async () => {
      try {
        const names: string[] = [];
        for await (const { name } of await this.#files.opendir(this.#path)) {
          if (name.endsWith(UNFINISHED)) continue;
          if (names.length === MAX_OBJECTS) throw tooManyObjects(this.title);
          names.push(name);
        }
        return names;
      } catch (error) {
        if (isCode(error, 'ENOENT')) return [];
        throw error;
      }
    });
  }

  remove(name: string): Promise<void> {
    return this.#doing(`cannot remove ${name}`, () => this.#files.rm(this.#pathOf(name), { force: true }));
  }

  /** Links the file, or copies it if the two directories are on different file systems. Parts are never changed. */
  async copyFrom(base: BackupStore, part: PartRecord): Promise<boolean> {
    const bytes = await intactPart(base, part);
    if (!bytes) return false;
    if (!(base instanceof Directory)) {
      await this.write(part.name, bytes);
      return true;
    }
    await this.#doing(`cannot write ${part.name}`, async () => {
      await this.#make();
      const draft = this.#pathOf(part.name) + UNFINISHED;
      await this.#files.rm(draft, { force: true });
      // A hard link to a symbolic link would leave the data in the other place.
      const earlier = await this.#files.realpath(base.#pathOf(part.name));
      try {
        await this.#files.link(earlier, draft);
      } catch {
        await this.#files.copyFile(earlier, draft, constants.COPYFILE_FICLONE);
        await using file = await this.#files.open(draft, 'r+');
        await file.chmod(OWNER_FILE);
        await file.sync();
      }
      await this.#files.rename(draft, this.#pathOf(part.name));
    });
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #pathOf(name: string): string {
    return join(this.#path, name);
  }

  async #make(): Promise<void> {
    if (!this.#isMade) await this.#makeWithParents(this.#path);
    this.#isMade = true;
  }

  /** Node's `recursive` option loops forever if a parent exists but accepts no directory, as in `/proc`. */
  async #makeWithParents(path: string): Promise<void> {
    try {
      await this.#files.mkdir(path, { mode: OWNER_DIRECTORY });
    } catch (error) {
      if (isCode(error, 'EEXIST')) return;
      const parent = dirname(path);
      if (!isCode(error, 'ENOENT') || parent === path || (await this.#exists(parent))) throw error;
      await this.#makeWithParents(parent);
      await this.#makeWithParents(path);
    }
  }

  #exists(path: string): Promise<boolean> {
    return this.#files.stat(path).then(
      () => true,
      () => false,
    );
  }

  /** Makes the names of all files durable. */
  #sync(): Promise<void> {
    return this.#doing('cannot sync the directory', async () => {
      await using directory = await this.#files.open(this.#path, 'r');
      await directory.sync();
    });
  }

  async #doing<T>(what: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      if (error instanceof BackupError) throw error;
      if (isCode(error, 'ENOSPC') || isCode(error, 'EDQUOT')) {
        throw new BackupError('BACKUP_PLACE_FULL', `no space is left in ${this.title}`, {
          hint: 'free space, then run the same command again: it continues',
          cause: error,
        });
      }
      const message = error instanceof Error ? error.message : String(error);
      throw new BackupError('BACKUP_PLACE_FAILED', `${what} in ${this.title}: ${message}`, { cause: error });
    }
  }
}

/** Reads to the end. The size is only the first guess: a file may grow, and some systems give none. */
async function bytesOf(file: FileHandle, name: string, size: number, maxBytes: number): Promise<Uint8Array> {
  if (size > maxBytes) throw tooLong(name, maxBytes);
  let bytes = Buffer.allocUnsafe(Math.min(maxBytes, Math.max(size, SMALLEST_READ)) + 1);
  for (let length = 0; ; ) {
    const { bytesRead } = await file.read(bytes, length, bytes.byteLength - length);
    if (bytesRead === 0) return bytes.subarray(0, length);
    length += bytesRead;
    if (length > maxBytes) throw tooLong(name, maxBytes);
    if (length === bytes.byteLength) {
      const longer = Buffer.allocUnsafe(Math.min(maxBytes, 2 * length) + 1);
      longer.set(bytes);
      bytes = longer;
    }
  }
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;
