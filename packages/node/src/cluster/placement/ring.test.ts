import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { desiredHolders } from './ring.ts';

const PARTITIONS = 1024;
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `node-${i}`);

describe('the ring', () => {
  test('is empty without nodes, and assigns everything to a single node', () => {
    expect(desiredHolders([], PARTITIONS)).toEqual([]);
    expect(new Set(desiredHolders(['a'], PARTITIONS))).toEqual(new Set(['a']));
  });

  test('does not depend on the order of the members', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 8 }), (ids) => {
        expect(desiredHolders([...ids].reverse(), PARTITIONS)).toEqual(desiredHolders(ids, PARTITIONS));
      }),
      { numRuns: 30 },
    );
  });

  test.each([1, 2, 3, 5, 9])('of %i nodes moves only the share of a node that joins', (count) => {
    const before = desiredHolders(names(count), PARTITIONS);
    const after = desiredHolders(names(count + 1), PARTITIONS);
    const moved = after.filter((holder, id) => holder !== before[id]);
    expect(new Set(moved)).toEqual(new Set([`node-${count}`]));
    expect(moved.length).toBeLessThanOrEqual((1.35 * PARTITIONS) / (count + 1));
    expect(desiredHolders(names(count), PARTITIONS)).toEqual(before);
  });

  test('spreads partitions evenly', () => {
    const counts = new Map<string, number>();
    for (const holder of desiredHolders(names(5), PARTITIONS)) counts.set(holder, (counts.get(holder) ?? 0) + 1);
    for (const count of counts.values()) {
      expect(count).toBeGreaterThan((0.75 * PARTITIONS) / 5);
      expect(count).toBeLessThan((1.25 * PARTITIONS) / 5);
    }
  });
});
