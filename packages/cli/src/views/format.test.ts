import { expect, test } from 'vitest';
import { bytes, count, countOf, duration, rate } from './format.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test.each([
  [0, '0ms'],
  [-5, '0ms'],
  [850.4, '850ms'],
  [999.6, '1.0s'],
  [1500, '1.5s'],
  [9.99 * SECOND, '9.9s'],
  [12 * SECOND, '12s'],
  [59.7 * SECOND, '1m00s'],
  [3 * MINUTE + 12 * SECOND, '3m12s'],
  [HOUR - 1, '1h00m'],
  [4 * HOUR + 5 * MINUTE, '4h05m'],
  [DAY - 1, '1d00h'],
  [2 * DAY + 3 * HOUR, '2d03h'],
  [400 * DAY, '400d00h'],
])('%d ms are %s', (ms, shown) => expect(duration(ms)).toBe(shown));

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [1024 * 1024 - 1, '1.0 MiB'],
  [3 * 1024 ** 3, '3.0 GiB'],
])('%d bytes are %s', (number, shown) => expect(bytes(number)).toBe(shown));

test.each([
  [0.04, '0'],
  [0.06, '0.1'],
  [12.34, '12.3'],
  [1234.5, '1,235'],
])('%d per second are %s', (perSecond, shown) => expect(rate(perSecond)).toBe(shown));

test('counts have separators, and nouns their plural', () => {
  expect(count(1_234_567)).toBe('1,234,567');
  expect(countOf(1, 'task')).toBe('1 task');
  expect(countOf(1_000, 'task')).toBe('1,000 tasks');
});
