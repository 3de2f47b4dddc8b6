import { expect, test } from 'vitest';
import { movingMean, prefetchFor } from './worker-run.ts';

test.each([
  ['nothing before the first task is done', undefined, 10, 10, 0],
  ['nothing for tasks that take long', 5_000, 10, 10, 0],
  ['a tenth of a second of work', 50, 10, 100, 20],
  ['never more than allowed', 0.1, 10, 10, 10],
  ['nothing when none is allowed', 1, 10, 0, 0],
])('%s', (_what, meanMs, concurrency, bound, expected) => {
  expect(prefetchFor(meanMs, concurrency, bound)).toBe(expected);
});

test('the mean follows changes, and one value changes it little', () => {
  expect(movingMean(undefined, 80)).toBe(80);
  expect(movingMean(80, 160)).toBe(90);
});
