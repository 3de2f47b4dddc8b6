import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreFailedError } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { openSmall, refusalOf, temporaryDirectory } from './test-support.ts';

test('a store creates the parents of its directory', async () => {
  await using dir = await temporaryDirectory();
  await using store = await openSmall(join(dir.path, 'a', 'b', 'c'));
  expect(store.state).toBeDefined();
});

test('a directory that cannot be created is reported', async () => {
  await using dir = await temporaryDirectory();
  await writeFile(join(dir.path, 'file'), '');
  const error = await refusalOf(openSmall(join(dir.path, 'file', 'db')));
  expect(error).toBeInstanceOf(StoreFailedError);
  expect(error.message).toContain(`${join(dir.path, 'file', 'db')} failed: the directory cannot be created: ENOTDIR`);
});

test.runIf(process.platform === 'linux')(
  'a directory that the file system never accepts is reported, without endless attempts',
  async () => {
    const error = await refusalOf(openSmall('/proc/taskmaster/db'));
    expect(error.message).toContain('/proc/taskmaster/db failed: the directory cannot be created');
  },
);

test('the size is that of all files, in directories below it too, and the free space is known', async () => {
  await using dir = await temporaryDirectory();
  await mkdir(join(dir.path, 'cluster', 'old'), { recursive: true });
  await writeFile(join(dir.path, 'cluster', 'old', 'file'), Buffer.alloc(30_000_000));
  await using store = await openSmall(dir.path);
  const { disk, space } = store.size();
  expect(disk).toBeGreaterThan(30_000_000);
  expect(space?.freeBytes).toBeGreaterThan(0);
  expect(space?.fullBelowBytes).toBeGreaterThan(0);
});

test('other users cannot read the directory, neither a new one nor one that they could read', async () => {
  await using dir = await temporaryDirectory();
  const made = join(dir.path, 'made');
  const found = join(dir.path, 'found');
  await mkdir(found, { mode: 0o755 });
  for (const path of [made, found]) {
    await using _store = await openSmall(path);
    expect((await stat(path)).mode & 0o777).toBe(0o700);
  }
});
