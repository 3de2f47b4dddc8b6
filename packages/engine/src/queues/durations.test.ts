import { expect, test } from 'vitest';
import { Durations } from './durations.ts';

test('durations are counted in the first bucket that they fit in', () => {
  const durations = new Durations();
  const { bounds } = durations;
  for (const [index, bound] of bounds.entries()) {
    durations.count(bound);
    durations.count(bound + 0.5);
    expect(durations.counts[index]).toBe(index === 0 ? 1 : 2);
  }
  durations.count(0);
  expect(durations.counts[0]).toBe(2);
  expect(durations.counts[bounds.length]).toBe(1);
  expect([...durations.counts].reduce((sum, count) => sum + count)).toBe(2 * bounds.length + 1);
  expect(durations.sumMs).toBe(bounds.reduce((sum, bound) => sum + 2 * bound + 0.5, 0));
});
