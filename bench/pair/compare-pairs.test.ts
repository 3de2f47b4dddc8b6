import { expect, test } from 'vitest';
import { comparePairs, isDearer } from './compare-pairs.ts';

const pairs = (ratios: readonly number[]) => ratios.map((ratio) => ({ before: { cpu: 10 }, now: { cpu: 10 * ratio } }));

test('a figure has the medians of both sides, and the median and the middle half of the ratios of the pairs', () => {
  const busy = { before: { cpu: 40 }, now: { cpu: 44 } };
  const [figure, ...others] = comparePairs([...pairs([1, 1.1, 1.2]), busy]);
  expect(others).toEqual([]);
  expect(figure).toMatchObject({ figure: 'cpu', before: 10, now: 11.5 });
  expect(figure?.ratio).toBeCloseTo(1.1);
  expect([figure?.low, figure?.high]).toEqual([1, expect.closeTo(1.1)]);
});

test.each([
  ['most pairs are dearer', [1.2, 1.3, 1.25, 1.2, 0.9], true],
  ['one slow run is no proof', [1, 1, 1, 1, 3], false],
  ['a noisy machine is no proof', [0.7, 0.9, 1.2, 1.3, 1.5], false],
  ['as dear as allowed', [1.1, 1.1, 1.1, 1.1, 1.1], false],
])('the bound holds for the median and three quarters of the pairs: %s', (_what, ratios, expected) => {
  const [figure] = comparePairs(pairs(ratios));
  expect(figure && isDearer(figure, 1.1)).toBe(expected);
});

test('a figure that one side does not report, or that cost nothing before, is left out', () => {
  expect(comparePairs([{ before: { v8: 0 }, now: { v8: 1, main: 2 } }])).toEqual([]);
});
