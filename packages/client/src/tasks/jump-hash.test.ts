import { describe, expect, test } from 'vitest';
import { jumpHash } from './shard-names.ts';

describe('the jump hash', () => {
  // As other implementations have them.
  test.each([
    [1n, 1, 0],
    [42n, 57, 43],
    [0xdead10ccn, 1, 0],
    [0xdead10ccn, 666, 361],
    [256n, 1024, 520],
  ])('of %d among %d buckets is %d', (key, buckets, bucket) => expect(jumpHash(key, buckets)).toBe(bucket));

  test('moves keys only to the new bucket', () => {
    for (let key = 0n; key < 1_000n; key++) {
      const spread = key * 0x9e3779b97f4a7c15n;
      const before = jumpHash(BigInt.asUintN(64, spread), 8);
      expect([before, 8]).toContain(jumpHash(BigInt.asUintN(64, spread), 9));
    }
  });
});
