import { expect, test } from 'vitest';
import { Latencies } from './latencies.ts';

function latenciesOf(...values: readonly number[]): Latencies {
  const latencies = Latencies.empty();
  for (const ms of values) latencies.record(ms);
  return latencies;
}

const decoded = (latencies: Latencies): Latencies => Latencies.decode(latencies.encode());

test.each([
  ['smaller ones', [1, 2], [1]],
  ['much larger ones', [1, 2], [90_000]],
  ['none', [1, 2], []],
])('decoded latencies can be added to %s', (_which, mine, others) => {
  const sum = decoded(latenciesOf(...mine));
  sum.add(decoded(latenciesOf(...others)));
  expect(sum.count).toBe(mine.length + others.length);
  expect(sum.at(100) / Math.max(...mine, ...others)).toBeCloseTo(1, 1);
  expect(decoded(sum).percentiles).toEqual(sum.percentiles);
});

test('latencies can be added to decoded ones of no call', () => {
  const sum = decoded(Latencies.empty());
  sum.add(latenciesOf(90_000));
  expect(sum.at(100)).toBeCloseTo(90_000, -3);
});
