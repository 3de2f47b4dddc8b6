import { spawnSync } from 'node:child_process';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Key } from '@taskmaster/engine/domain';
import { Family, type Store, StoreFullError, type StoreState } from '@taskmaster/engine/ports';
import { SeededRandom } from '@taskmaster/engine/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FORMAT_FILE } from './format-file.ts';
import { openRocksStore } from './rocks-store.ts';
import { eventually, namesIn, put, type TemporaryDirectory, temporaryDirectory } from './test-support.ts';

const MIB = 1024 * 1024;
const SYNC = { sync: true };
const random = new SeededRandom(1);

const mount = (path: string, megabytes: number) =>
  spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path]).status === 0;
const unmount = (path: string) => spawnSync('umount', [path]).status;

async function canMount(): Promise<boolean> {
  await using probe = await temporaryDirectory();
  if (!mount(probe.path, 1)) return false;
  unmount(probe.path);
  return true;
}

const possible = await canMount();
const reason = possible ? '' : ' (skipped: it takes the right to mount a small file system)';

describe.skipIf(!possible)(`a disk that fills up${reason}`, { timeout: 60_000 }, () => {
  let disk: TemporaryDirectory;
  let store: Store;
  let states: StoreState['kind'][];
  const written: string[] = [];
  const openStore = () =>
    openRocksStore({
      release: '0.0.0',
      dir: join(disk.path, 'store'),
      reserveBytes: 8 * MIB,
      memtableBytes: 3 * MIB,
      blockCacheBytes: 4 * MIB,
    });

  beforeEach(async () => {
    disk = await temporaryDirectory();
    mount(disk.path, 64);
    store = await openStore();
    states = [];
    written.length = 0;
    store.onStateChange(({ kind }) => states.push(kind));
  });
  afterEach(async () => {
    await store.close();
    unmount(disk.path);
    await disk[Symbol.asyncDispose]();
  });

  async function write(bytes: number): Promise<void> {
    const name = `row ${written.length}`;
    await store.write(put(name, random.bytes(bytes)), SYNC);
    written.push(name);
  }

  /** Another file takes this much space, or all of it. */
  async function fill(bytes = Number.POSITIVE_INFINITY): Promise<void> {
    await using file = await open(join(disk.path, 'ballast'), 'w');
    const chunk = Buffer.alloc(256 * 1024);
    for (let done = 0; done < bytes; done += chunk.length) {
      const space = await file.write(chunk).then(
        ({ bytesWritten }) => bytesWritten === chunk.length,
        () => false,
      );
      if (!space) return;
    }
  }
  const free = () => rm(join(disk.path, 'ballast'));

  async function expectAllWritten(): Promise<void> {
    expect((await namesIn(store)).sort()).toEqual([...written].sort());
    await store.close();
    store = await openStore();
    expect((await namesIn(store)).sort()).toEqual([...written].sort());
  }

  test('counts as full before a write fails, still serves small writes and reads, and recovers by itself', async () => {
    await fill(24 * MIB);
    while (store.state.kind === 'writable') await write(50_000);
    expect(store.state).toMatchObject({ kind: 'full' });
    for (let number = 0; number < 100; number++) await write(100);
    expect(await store.get(Family.ready, ['row 0' as Key])).toHaveLength(1);
    await free();
    await eventually(10_000, () => store.state.kind === 'writable');
    await write(50_000);
    expect(states.slice(0, 2)).toEqual(['full', 'writable']);
    await expectAllWritten();
  });

  test('refuses whole writes when even the reserve is used up, still serves reads, and recovers with free space', async () => {
    await write(1000);
    await fill();
    // All are written before the first refusal is known. Writes behind the refused one depend on it and are refused, too.
    const batches = Array.from({ length: 20 }, (_, number) => put(`large ${number}`, random.bytes(2 * MIB)));
    const outcomes = await Promise.allSettled(batches.map((batch) => store.write(batch, SYNC)));
    const firstRefused = outcomes.findIndex(({ status }) => status === 'rejected');
    expect(firstRefused).toBeGreaterThanOrEqual(0);
    for (const outcome of outcomes.slice(firstRefused)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(StoreFullError) });
    }
    expect(store.state.kind).toBe('full');
    written.push(...Array.from({ length: firstRefused }, (_, number) => `large ${number}`));
    expect(await namesIn(store)).toEqual([...written].sort());
    await eventually(10_000, async () => !(await readdir(join(disk.path, 'store'))).includes('reserve'));

    await free();
    // RocksDB tries again after about five seconds.
    await eventually(20_000, () => store.state.kind === 'writable');
    await write(1000);
    await expectAllWritten();
  });

  test('a store on a full disk opens again with the space of the reserve', async () => {
    await write(1000);
    await eventually(10_000, async () => (await readdir(join(disk.path, 'store'))).includes('reserve'));
    await store.close();
    await fill();
    store = await openStore();
    expect(store.state.kind).toBe('full');
    expect(await namesIn(store)).toEqual(written);
  });

  test('a directory of an earlier format on a full disk gets the new one with the space of the reserve', async () => {
    await write(1000);
    await eventually(10_000, async () => (await readdir(join(disk.path, 'store'))).includes('reserve'));
    await store.close();
    await rm(join(disk.path, 'store', FORMAT_FILE));
    await fill();
    store = await openStore();
    expect(await namesIn(store)).toEqual(written);
    expect(await readdir(join(disk.path, 'store'))).toContain(FORMAT_FILE);
  });
});
