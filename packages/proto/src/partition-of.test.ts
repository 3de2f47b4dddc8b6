import { describe, expect, test } from 'vitest';
import vectorFile from '../partition-vectors.json' with { type: 'json' };
import { DEFAULT_PARTITIONS, partitionOf } from './partition-of.ts';

describe('the partition of a group', () => {
  test.each(vectorFile.vectors)('$group is the one of the published vectors', ({ group, of1024, of4096, of7 }) => {
    expect([1024, 4096, 7].map((partitions) => partitionOf(group, partitions))).toEqual([of1024, of4096, of7]);
  });

  test('spreads groups evenly over 1024 partitions unless the cluster has another number', () => {
    const groups = new Uint32Array(DEFAULT_PARTITIONS);
    for (let i = 0; i < 100 * DEFAULT_PARTITIONS; i++) {
      const partition = partitionOf(`group-${i}`);
      groups[partition] = (groups[partition] ?? 0) + 1;
    }
    expect(DEFAULT_PARTITIONS).toBe(1024);
    expect(Math.min(...groups)).toBeGreaterThan(50);
    expect(Math.max(...groups)).toBeLessThan(150);
  });
});
