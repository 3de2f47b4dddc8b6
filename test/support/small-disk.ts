import { mkdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { runProcess } from './processes/child-process.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** A small file system in memory that can become full. It is unmounted when it is disposed of. */
export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  freeBytes(): Promise<number>;
}

/** The reason why this machine cannot make a small disk; undefined if it can. */
export async function whyNoSmallDisk(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'only Linux has tmpfs';
  if (process.getuid?.() !== 0) return 'only root can mount';
  try {
    await using _disk = await mountSmallDisk(1024 * 1024);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export async function mountSmallDisk(bytes: number): Promise<SmallDisk> {
  const parent = await temporaryDirectory();
  const path = join(parent.path, 'disk');
  await mkdir(path);
  const mounted = await runProcess('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path]);
  if (mounted.code !== 0) {
    await parent[Symbol.asyncDispose]();
    throw new Error(`mount is not allowed here: ${mounted.stderr.trim()}`);
  }
  return {
    path,
    async freeBytes() {
      const { bavail, bsize } = await statfs(path);
      return bavail * bsize;
    },
    async [Symbol.asyncDispose]() {
      // Lazily: processes keep their open files until they end.
      await runProcess('umount', ['--lazy', path]);
      await parent[Symbol.asyncDispose]();
    },
  };
}
