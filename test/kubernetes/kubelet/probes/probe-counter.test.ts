import { expect, test } from 'vitest';
import { ProbeCounter } from './probe-counter.ts';

/** S: a success; f: a failure. The verdict behind each result: S, f, or - for none. */
test.each([
  ['S', {}, 'S'],
  ['ff', {}, '--'],
  ['fff', {}, '--f'],
  ['ffSfff', {}, '--S--f'],
  ['fSfS', { failureThreshold: 1 }, 'fSfS'],
  ['SS', { successThreshold: 2 }, '-S'],
  ['SfSS', { successThreshold: 2, failureThreshold: 2 }, '---S'],
  ['fffff', { failureThreshold: 3 }, '--fff'],
])('%s with %j is %s', (results, thresholds, expected) => {
  const counter = new ProbeCounter(thresholds);
  const verdicts = [...results].map((result) => counter.record(result === 'S' ? 'success' : 'failure'));
  expect(verdicts.map((verdict) => (verdict === undefined ? '-' : verdict === 'success' ? 'S' : 'f')).join('')).toBe(
    expected,
  );
});
