import { mkdtempSync, rmSync, statSync } from 'node:fs';
import * as files from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeContract } from '../testing/store-contract.ts';
import { Directory } from './directory.ts';

async function places() {
  const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
  return {
    at: (name: string) => new Directory(join(root, name, 'deeper')),
    [Symbol.asyncDispose]: async () => rmSync(root, { recursive: true }),
  };
}

storeContract('a directory', places);

test('a file has its name only after it was synced', async () => {
  const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
  const steps: string[] = [];
  const open: typeof files.open = async (path, flags) => {
    const file = await files.open(path, flags);
    const sync = file.sync.bind(file);
    file.sync = () => {
      steps.push(flags === 'r' ? 'sync directory' : 'sync');
      return sync();
    };
    return file;
  };
  const rename: typeof files.rename = (from, to) => {
    steps.push('rename');
    return files.rename(from, to);
  };
  const directory = new Directory(join(root, 'x'), { ...files, open, rename });
  await directory.write('part', Buffer.from('1'));
  await directory.finish('manifest', Buffer.from('2'));
  expect(steps).toEqual(['sync', 'rename', 'sync directory', 'sync', 'rename', 'sync directory']);
  rmSync(root, { recursive: true });
});

test('the error of a directory that cannot be written has the reason', async () => {
  await expect(new Directory('/proc/nowhere').write('x', Buffer.from('x'))).rejects.toMatchObject({
    reason: 'BACKUP_PLACE_FAILED',
    message: expect.stringContaining('cannot write x in /proc/nowhere'),
  });
});

test('only the owner may read files and directories, whatever the umask is', async () => {
  const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
  const umask = process.umask(0);
  try {
    const first = new Directory(join(root, 'backups', 'first'));
    const bytes = Buffer.from('1');
    await first.write('part', bytes);
    await first.finish('manifest', bytes);
    const modes = ['backups', 'backups/first', 'backups/first/part', 'backups/first/manifest'].map(
      (name) => statSync(join(root, name)).mode & 0o777,
    );
    expect(modes).toEqual([0o700, 0o700, 0o600, 0o600]);
  } finally {
    process.umask(umask);
    rmSync(root, { recursive: true });
  }
});
