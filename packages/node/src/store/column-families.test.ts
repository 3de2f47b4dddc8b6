import { familyNames } from '@taskmaster/engine/ports';
import { describe, expect, test } from 'vitest';
import { columnOptions } from './column-families.ts';

const MIB = 1024 * 1024;
const sum = (numbers: readonly (number | undefined)[]): number => numbers.reduce<number>((all, n) => all + (n ?? 0), 0);

describe('the memory of the column families', () => {
  test.each([
    [64, 64],
    [128, 128],
    [1024, 4096],
  ])('stays within %i MiB of caches and %i MiB of memtables, and uses them', (cacheMib, memtableMib) => {
    const columns = Object.values(
      columnOptions({
        blockCacheBytes: cacheMib * MIB,
        memtableBytes: memtableMib * MIB,
        dictionaryCompression: false,
      }),
    );
    const caches = sum(columns.map(({ cacheSize }) => cacheSize));
    // RocksDB keeps up to six memtables of a quarter of the budget each.
    const memtables = sum(columns.map(({ memtableMemoryBudget = 0 }) => (memtableMemoryBudget / 4) * 6));
    expect(caches / MIB).toBeLessThanOrEqual(cacheMib * 1.01);
    expect(caches / MIB).toBeGreaterThan(cacheMib * 0.95);
    expect(memtables / MIB).toBeLessThanOrEqual(memtableMib * 1.02);
    expect(memtables / MIB).toBeGreaterThan(memtableMib * 0.95);
  });

  test('every family is opened, RocksDB’s own included', () => {
    const columns = columnOptions({ blockCacheBytes: MIB, memtableBytes: MIB, dictionaryCompression: false });
    expect(Object.keys(columns).sort()).toEqual([...familyNames, 'default'].sort());
  });

  test('every family gets enough memory to work, even with a small budget', () => {
    for (const { cacheSize = 0, memtableMemoryBudget = 0 } of Object.values(
      columnOptions({ blockCacheBytes: 0, memtableBytes: 0, dictionaryCompression: true }),
    )) {
      expect(Math.min(cacheSize, memtableMemoryBudget)).toBeGreaterThanOrEqual(256 * 1024);
    }
  });
});
