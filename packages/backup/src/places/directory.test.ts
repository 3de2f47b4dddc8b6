import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import * as files from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { recordOf } from '../format/manifest.ts';
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

describe('only a regular file is read', () => {
  const ways: readonly [string, (path: string) => void][] = [
    ['a FIFO', (path) => execFileSync('mkfifo', [path])],
    ['a link to a device without an end', (path) => symlinkSync('/dev/zero', path)],
    ['a directory', (path) => mkdirSync(path)],
  ];
  test.each(ways)('not %s', async (_what, make) => {
    const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
    make(join(root, 'manifest.json'));
    await expect(new Directory(root).read('manifest.json', 1_000_000)).rejects.toMatchObject({
      reason: 'BACKUP_PLACE_FAILED',
      message: expect.stringContaining('manifest.json is not a regular file'),
    });
    rmSync(root, { recursive: true });
  });

  test('a link to one is followed', async () => {
    const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
    writeFileSync(join(root, 'x'), '1');
    symlinkSync('x', join(root, 'y'));
    expect(await new Directory(root).read('y', 1)).toEqual(Buffer.from('1'));
    rmSync(root, { recursive: true });
  });

  test('a file whose size is no measure of its bytes is read up to the limit', async () => {
    const directory = new Directory('/proc/self');
    expect(Buffer.from((await directory.read('status', 1_000_000)) ?? []).toString()).toContain('Pid:');
    await expect(directory.read('status', 10)).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });
});

test('a part that is a link in the base is a file of its own in the copy', async () => {
  const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
  const [base, copy] = [join(root, 'base'), join(root, 'copy')];
  mkdirSync(base);
  writeFileSync(join(root, 'elsewhere'), 'part');
  symlinkSync('../elsewhere', join(base, 'p'));
  expect(await new Directory(copy).copyFrom(new Directory(base), recordOf('p', Buffer.from('part')))).toBe(true);
  expect(lstatSync(join(copy, 'p')).isFile()).toBe(true);
  rmSync(root, { recursive: true });
});

test('a draft that is a FIFO or a link is replaced, not written through', async () => {
  const root = mkdtempSync(join(tmpdir(), 'taskmaster-places-'));
  writeFileSync(join(root, 'other'), 'of the operator');
  symlinkSync('other', join(root, 'x.unfinished'));
  execFileSync('mkfifo', [join(root, 'y.unfinished')]);
  const directory = new Directory(root);
  for (const name of ['x', 'y']) await directory.write(name, Buffer.from('new'));
  expect(await directory.read('x', 3)).toEqual(Buffer.from('new'));
  expect(await directory.read('y', 3)).toEqual(Buffer.from('new'));
  expect(await directory.read('other', 100)).toEqual(Buffer.from('of the operator'));
  rmSync(root, { recursive: true });
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
