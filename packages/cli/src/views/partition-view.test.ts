import { expect, test } from 'vitest';
import { idRuns } from './partition-view.ts';

test.each([
  [[], ''],
  [[5], '5'],
  [[0, 1, 2, 3, 7, 9, 10], '0-3, 7, 9-10'],
])('%j is %s', (ids, text) => expect(idRuns(ids)).toBe(text));

test('a list that is too long is cut and ends in dots', () => {
  const odd = Array.from({ length: 500 }, (_, i) => 2 * i + 1);
  expect(idRuns(odd, 12)).toBe('1, 3, 5, 7, ...');
  expect(idRuns([100_000, 100_002], 3)).toBe('100000, ...');
});
