import { describe, expect, test } from 'vitest';
import type { Instant } from '../../domain/ids.ts';
import { SeededRandom } from '../../testing/seeded-random.ts';
import { TokenBucket } from './token-bucket.ts';

const at = (ms: number): Instant => (1_000_000 + ms) as Instant;

describe('a bucket of tokens', () => {
  test.each([
    [1, 1000, 1],
    [3, 1000, 1],
    [7, 1000, 5],
    [5000, 1000, 10],
    [1, 24 * 3600 * 1000, 1_000_000],
  ])(
    'of %i in %i ms with a burst of %i is restored less than a ms less full, and never fuller',
    (tasks, perMs, burst) => {
      const rate = { tasks, perMs, burst };
      const random = new SeededRandom(tasks);
      const bucket = new TokenBucket(rate);
      let now = at(0);
      for (let step = 0; step < 200; step++) {
        now = (now + random.int(Math.ceil((3 * perMs) / tasks))) as Instant;
        const taken = Math.min(bucket.count(now), random.int(4));
        if (taken === 0) continue;
        const emptyAt = bucket.emptyAfter(taken, now);
        bucket.take(taken, now);
        const restored = new TokenBucket(rate);
        restored.restore(emptyAt, now);
        const [was, is] = [bucket.fullAt(now) ?? now, restored.fullAt(now) ?? now];
        // Before 1970 nothing is empty: a bucket that fills for longer is restored as one that was empty then.
        if (emptyAt > 0) expect(is - was).toBeLessThanOrEqual(1);
        expect(is).toBeGreaterThanOrEqual(was);
        expect(restored.count(now)).toBeLessThanOrEqual(bucket.count(now));
      }
    },
  );

  test('that was emptied in the future is empty: the next token is not later than it would be', () => {
    const bucket = new TokenBucket({ tasks: 2, perMs: 1000, burst: 9 });
    bucket.restore(at(3_600_000), at(0));
    expect([bucket.count(at(0)), bucket.next(at(0)), bucket.fullAt(at(0))]).toEqual([0, at(500), at(4500)]);
  });

  test('goes on at another rate as if it had filled at that since it was empty', () => {
    const before = new TokenBucket({ tasks: 1, perMs: 1000, burst: 4 });
    before.take(4, at(0));
    const after = (tasks: number, burst: number): number => {
      const bucket = new TokenBucket({ tasks, perMs: 1000, burst });
      bucket.replace(before);
      return bucket.count(at(2500));
    };
    expect([after(1, 4), after(1, 9), after(1, 1), after(2, 9), after(2, 3)]).toEqual([2, 2, 1, 5, 3]);
  });
});
