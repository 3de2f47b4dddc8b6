import { describe, expect, test } from 'vitest';
import {
  formatAgo,
  formatBytes,
  formatCount,
  formatDuration,
  formatMany,
  formatRate,
  formatShort,
  formatTime,
} from './format.ts';

test.each([
  [-5, '0 ms'],
  [0, '0 ms'],
  [999, '999 ms'],
  [1_000, '1 s'],
  [1_550, '1.5 s'],
  [59_999, '59 s'],
  [60_000, '1 min'],
  [61_000, '1 min 1 s'],
  [600_000, '10 min'],
  [659_000, '10 min'],
  [3_600_000, '1 h'],
  [3_660_000, '1 h 1 min'],
  [47 * 3_600_000, '47 h'],
  [48 * 3_600_000, '2 d'],
])('%d ms are %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test('a short duration has one unit', () => {
  expect([100, 61_000, 3_660_000].map(formatShort)).toEqual(['100 ms', '1 min', '1 h']);
});

test('counts are exact below ten millions', () => {
  expect([0, 1_234, 9_999_999, 12_345_678, 2_500_000_000].map(formatCount)).toEqual([
    '0',
    '1,234',
    '9,999,999',
    '12.3 M',
    '2.5 G',
  ]);
  expect([formatMany(1, 'task'), formatMany(0, 'task'), formatMany(2, 'task matches', 'tasks match')]).toEqual([
    '1 task',
    '0 tasks',
    '2 tasks match',
  ]);
});

test('rates keep small ones visible', () => {
  expect([0, 0.004, 0.02, 0.5, 3.14, 1_234.5].map(formatRate)).toEqual([
    '0/s',
    '0/s',
    '0.02/s',
    '0.50/s',
    '3.1/s',
    '1,235/s',
  ]);
});

test('bytes have binary units', () => {
  expect([0, 1_023, 1_024, 10_240, 3 * 2 ** 20].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '10 KiB',
    '3.0 MiB',
  ]);
});

describe('a time', () => {
  const now = new Date(2030, 0, 15, 12, 0, 0).getTime();

  test('has its date if it is of another day', () => {
    expect(formatTime(new Date(2030, 0, 15, 3, 4, 5).getTime(), now)).toBe('03:04:05');
    expect(formatTime(new Date(2030, 0, 14, 23, 59, 59).getTime(), now)).toBe('2030-01-14 23:59:59');
  });

  test('lies before or behind now', () => {
    expect([formatAgo(now - 5_000, now), formatAgo(now + 90_000, now), formatAgo(now, now)]).toEqual([
      '5 s ago',
      'in 1 min 30 s',
      'now',
    ]);
  });
});
