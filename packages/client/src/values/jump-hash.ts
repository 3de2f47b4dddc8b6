/**
 * The bucket of a key among this number of buckets, from 0 (Lamping and Veach, A Fast, Minimal Memory, Consistent Hash
 * Algorithm). With one bucket more, only the keys that go to the new bucket move.
 * @param key 64 bits.
 */
export function jumpHash(key: bigint, buckets: number): number {
  let state = key;
  let bucket = -1;
  for (let next = 0; next < buckets; ) {
    bucket = next;
    state = BigInt.asUintN(64, state * 2_862_933_555_777_941_757n + 1n);
    next = Math.floor((bucket + 1) * (2 ** 31 / (Number(state >> 33n) + 1)));
  }
  return bucket;
}
