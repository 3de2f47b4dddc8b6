import { mkdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { runProcess } from './child-process.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** A file system of its own, in memory, that can really be full. Unmounted when it is disposed of. */
export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  freeBytes(): Promise<number>;
}

/** Why there can be no small disk here; undefined: there can. */
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
      // Lazily: whoever still has files open keeps them until it ends.
      await runProcess('umount', ['--lazy', path]);
      await parent[Symbol.asyncDispose]();
    },
  };
}
