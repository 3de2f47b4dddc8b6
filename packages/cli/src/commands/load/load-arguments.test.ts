import { describe, expect, test } from 'vitest';
import { DEFAULT_MIX } from '../../load/workload/operations.ts';
import { latency } from './latency.ts';
import { decimal, groupPrefix, mix, mixText, sizeRange } from './load-arguments.ts';

describe('the mix', () => {
  test('has the weight 0 for operations that are not named', () => {
    expect(mix('enqueue=3, work=0.5')).toMatchObject({ enqueue: 3, work: 0.5, pipeline: 0 });
    expect(mix(mixText(DEFAULT_MIX))).toEqual(DEFAULT_MIX);
  });

  test.each(['', 'enqueue', 'enqueue=', 'enqueue=-1', 'sleep=1', 'enqueue=0'])("'%s' is refused", (text) => {
    expect(() => mix(text)).toThrow(/is not OPERATION=WEIGHT|above 0/);
  });
});

describe('the size of payloads', () => {
  test.each([
    ['256', { min: 256, max: 256 }],
    ['4KiB', { min: 4_096, max: 4_096 }],
    ['100-1.5KiB', { min: 100, max: 1_536 }],
    ['3MiB', { min: 3 * 1024 ** 2, max: 3 * 1024 ** 2 }],
  ])('%s', (text, range) => {
    expect(sizeRange(text)).toEqual(range);
  });

  test.each(['', '10', '4MiB', '200-100', '100-200-300', '-100', '1kb'])("'%s' is refused", (text) => {
    expect(() => sizeRange(text)).toThrow('is not a size');
  });
});

test('numbers and groups have bounds', () => {
  expect(decimal(0, 10)('0.5')).toBe(0.5);
  expect(() => decimal(0, 10)('11')).toThrow('is not a number from 0 to 10');
  expect(groupPrefix('load')).toBe('load');
  for (const text of ['', 'a#b', 'x'.repeat(401)]) expect(() => groupPrefix(text)).toThrow('1 to 400 bytes');
});

test.each([
  [0, '0.00ms'],
  [0.853, '0.85ms'],
  [9.999, '10.0ms'],
  [12.34, '12.3ms'],
  [456.4, '456ms'],
  [999.6, '1.00s'],
  [61_000, '61.0s'],
])('a latency of %d ms is %s', (ms, text) => {
  expect(latency(ms)).toBe(text);
});
