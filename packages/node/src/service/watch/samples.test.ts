import { expect, test } from 'vitest';
import { Samples } from './samples.ts';

const ring = (slots: readonly number[], most = 4) => {
  const samples = new Samples(['value'], most);
  for (const slot of slots) samples.add(slot, { value: slot * 10 });
  return samples;
};

test.each([
  ['nothing at first', [], []],
  ['those that were added', [7, 8], [70, 80]],
  ['only the last ones', [7, 8, 9, 10, 11], [80, 90, 100, 110]],
  ['a gap as unknown', [7, 9], [70, -1, 90]],
  ['a gap that is longer than all of them', [7, 100], [-1, -1, -1, 1000]],
  ['no slot twice, and none of a clock that was set back', [7, 8, 8, 3, 9], [70, 80, 90]],
  ['only those since a clock was set back by hours', [1_000, 1_001, 7, 8], [70, 80]],
])('samples show %s', (_what, slots, values) => {
  expect(ring(slots).of('value')).toEqual(values);
});

test('samples behind a slot are those that a page does not have yet', () => {
  const samples = ring([7, 8, 9]);
  expect([samples.of('value', 8), samples.of('value', 9), samples.of('value', 0)]).toEqual([[90], [], [70, 80, 90]]);
  expect(samples.last).toBe(9);
});
