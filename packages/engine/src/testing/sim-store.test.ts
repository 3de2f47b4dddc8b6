import { describe, expect, test } from 'vitest';
import type { Key } from '../domain/ids.ts';
import { Family, StoreCorruptError, StoreFailedError, StoreFullError, StoreLockedError } from '../ports/store.ts';
import { settle, VirtualTime } from '../ports/virtual-clock.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { SeededRandom } from './seeded-random.ts';
import { SimDisk, type SimDiskOptions } from './sim-store.ts';
import { SimCrashedError } from './sim-store-process.ts';

const put = (...keys: string[]) => {
  const batch = new WriteBatch();
  for (const key of keys) batch.put(Family.data, key as Key, Buffer.from(`value of ${key}`));
  return batch;
};
const setUp = (options: Partial<SimDiskOptions> = {}) => new SimDisk({ random: new SeededRandom(1), ...options });
const keysOf = (disk: SimDisk) => disk.rowsOf(Family.data).map(({ key }) => key);
const sync = { sync: true };
const noSync = { sync: false };

describe('a crash of the simulated disk', () => {
  test.each([
    [1, 'write', 'before', [[]]],
    [2, 'write', 'after', [[], ['a']]],
    [3, 'sync', 'before', [[], ['a']]],
    [4, 'sync', 'after', [['a']]],
  ])('at step %i, %s %s, leaves only allowed rows', async (number, kind, phase, allowed) => {
    for (let seed = 0; seed < 20; seed++) {
      const disk = setUp({ random: new SeededRandom(seed) });
      const steps: unknown[] = [];
      disk.onStep = (step) => steps.push(step);
      disk.crashAt(number);
      let settled = false;
      const done = () => {
        settled = true;
      };
      disk.open().write(put('a'), sync).then(done, done);
      await settle();
      expect(steps.at(-1)).toEqual({ number, kind, phase });
      expect(settled, 'a crashed process sees no reply').toBe(false);
      expect(allowed).toContainEqual(keysOf(disk));
    }
  });

  test('keeps a prefix of the unsynced atomic batches; every length occurs', async () => {
    const left = new Set<string>();
    for (let seed = 0; seed < 100; seed++) {
      const disk = setUp({ random: new SeededRandom(seed) });
      const store = disk.open();
      await store.write(put('a', 'b'), sync);
      await store.write(put('c', 'd'), noSync);
      await store.write(put('e', 'f'), noSync);
      disk.crash();
      left.add(keysOf(disk).join(''));
    }
    expect([...left].sort()).toEqual(['ab', 'abcd', 'abcdef']);
  });

  test('keeps any rows of unfinished batches on a disk without atomic batches', async () => {
    const left = new Set<string>();
    for (let seed = 0; seed < 200; seed++) {
      const disk = setUp({ random: new SeededRandom(seed), atomicBatches: false });
      const store = disk.open();
      await store.write(put('a'), sync);
      await store.write(put('b', 'c'), noSync);
      disk.crash();
      left.add(keysOf(disk).join(''));
    }
    expect([...left].sort()).toEqual(['a', 'ab', 'abc', 'ac']);
  });

  test('ends the store: promises stay pending, new calls reject, the disk can be opened again', async () => {
    const disk = setUp();
    const store = disk.open();
    expect(() => disk.open()).toThrow(StoreLockedError);
    disk.crash();
    await expect(store.write(put('a'), sync)).rejects.toBeInstanceOf(SimCrashedError);
    await using again = disk.open();
    await again.write(put('b'), sync);
    expect(keysOf(disk)).toEqual(['b']);
  });

  test('is the same for the same seed', async () => {
    const run = async () => {
      const disk = setUp({ random: new SeededRandom(42), atomicBatches: false });
      await disk.open().write(put(...'abcdefghijklmnop'), noSync);
      disk.crash();
      return keysOf(disk);
    };
    expect(await run()).toEqual(await run());
  });
});

describe('faults of the simulated disk', () => {
  test.each(['write', 'sync'] as const)('a failed %s ends all writes of the store', async (kind) => {
    const disk = setUp();
    await using store = disk.open();
    const states: string[] = [];
    store.onStateChange(({ kind }) => states.push(kind));
    kind === 'write' ? disk.failWrite(2) : disk.failSync(2);
    await store.write(put('a'), sync);
    await expect(store.write(put('b'), sync)).rejects.toBeInstanceOf(StoreFailedError);
    await expect(store.write(put('c'), sync)).rejects.toBeInstanceOf(StoreFailedError);
    expect(states).toEqual(['failed']);
    expect(await store.get(Family.data, ['a' as Key, 'b' as Key])).toEqual([Buffer.from('value of a'), undefined]);
  });

  test('only the next open shows which rows a failed fsync left', async () => {
    const left = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const disk = setUp({ random: new SeededRandom(seed) });
      disk.failSync();
      const store = disk.open();
      await expect(store.write(put('a'), sync)).rejects.toBeInstanceOf(StoreFailedError);
      await store.close();
      disk.open();
      left.add(keysOf(disk).join());
    }
    expect([...left].sort()).toEqual(['', 'a']);
  });

  test('a full disk refuses all writes until every caller knows of the refusal, and then accepts writes', async () => {
    const disk = setUp();
    await using store = disk.open();
    disk.space = 'none';
    const first = store.write(put('a'), sync);
    const behind = store.write(put('b'), sync).catch((error: unknown) => error);
    await expect(first).rejects.toBeInstanceOf(StoreFullError);
    disk.space = 'plenty';
    // A caller behind a few more promises does not know of the refusal yet; its write may depend on the refused one.
    await expect(store.write(put('c'), sync)).rejects.toBeInstanceOf(StoreFullError);
    expect(await behind).toBeInstanceOf(StoreFullError);
    await settle();
    await store.write(put('d'), sync);
    expect(keysOf(disk)).toEqual(['d']);
  });

  test('a disk with little space reports it and still writes', async () => {
    const disk = setUp();
    await using store = disk.open();
    const states: string[] = [];
    store.onStateChange(({ kind }) => states.push(kind));
    disk.space = 'short';
    await store.write(put('a'), sync);
    disk.space = 'plenty';
    expect(states).toEqual(['full', 'writable']);
  });

  test('a damaged row is reported, not returned', async () => {
    const disk = setUp();
    await using store = disk.open();
    await store.write(put('a', 'b'), sync);
    disk.corrupt(Family.data, 'b' as Key);
    expect(await store.get(Family.data, ['a' as Key])).toHaveLength(1);
    await expect(store.get(Family.data, ['b' as Key])).rejects.toBeInstanceOf(StoreCorruptError);
    const all = { gte: 'a' as Key, lt: 'z' as Key };
    await expect(store.scan(Family.data, all, { rows: 9, bytes: 999 })).rejects.toBeInstanceOf(StoreCorruptError);
  });

  test('a slow disk and a stalled write take virtual time', async () => {
    const time = new VirtualTime();
    const disk = setUp({ clock: time, writeMs: 1, syncMs: 4, readMs: 2 });
    await using store = disk.open();
    const start = time.now();
    await time.run(store.write(put('a'), sync));
    expect(time.now() - start).toBe(5);
    disk.stallWrite(2000);
    await time.run(store.write(put('b'), noSync));
    expect(time.now() - start).toBe(2006);
    await time.run(store.get(Family.data, ['a' as Key]));
    expect(time.now() - start).toBe(2008);
    await time.run(store.close());
  });
});
