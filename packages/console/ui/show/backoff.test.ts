import { expect, test } from 'vitest';
import { pauseAfter } from './backoff.ts';

test('pauses grow up to 15 s, and differ among pages', () => {
  expect([1, 2, 3, 4, 5, 50].map((failures) => pauseAfter(failures, 1))).toEqual([
    1_000, 2_000, 4_000, 8_000, 15_000, 15_000,
  ]);
  expect(pauseAfter(1, 0)).toBe(750);
});
