import { expect, test } from 'vitest';
import { formatCount, formatDuration, formatRate } from './format.ts';

test.each([
  [0, '0ms'],
  [999, '999ms'],
  [1_000, '1.0s'],
  [9_940, '9.9s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [61_000, '1m 1s'],
  [3_599_000, '59m 59s'],
  [3_600_000, '1h'],
  [9 * 3_600_000 + 120_000, '9h 2m'],
  [3.5 * 86_400_000, '3d 12h'],
])('%d ms is %s', (ms, text) => expect(formatDuration(ms)).toBe(text));

test.each([
  [0, '0'],
  [0.01, '<0.1'],
  [0.2, '0.2'],
  [99.94, '99.9'],
  [1_234.5, '1,235'],
])('%d per second is %s', (rate, text) => expect(formatRate(rate)).toBe(text));

test('counts are grouped', () => expect(formatCount(131_013_560)).toBe('131,013,560'));
