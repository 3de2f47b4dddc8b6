import { expect, test } from 'vitest';
import { Latencies } from './latencies.ts';

function latenciesOf(...ms: readonly number[]): Latencies {
  const latencies = Latencies.empty();
  for (const one of ms) latencies.record(one);
  return latencies;
}

test('percentiles are exact to 1 %', () => {
  const latencies = latenciesOf(...Array.from({ length: 1_000 }, (_, at) => at + 1));
  for (const [percentile, expected] of [
    [50, 500],
    [99, 990],
    [99.9, 999],
    [100, 1_000],
  ] as const) {
    expect(Math.abs(latencies.at(percentile) - expected)).toBeLessThanOrEqual(expected / 100);
  }
  expect(Latencies.empty().percentiles).toMatchObject({ p50Ms: 0, maxMs: 0 });
});

test('decoded latencies can be added to, also by larger ones', () => {
  const decoded = Latencies.decode(latenciesOf(1, 2).encode());
  decoded.add(latenciesOf(60_000));
  decoded.add(Latencies.decode(latenciesOf(200_000).encode()));
  expect(decoded.count).toBe(4);
  expect(decoded.at(100) / 200_000).toBeCloseTo(1, 1);
});
