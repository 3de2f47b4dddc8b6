import { expect, test } from 'vitest';
import { durationMs, leaseDurationMs } from './duration.ts';

test.each([
  [0, 0],
  [1500, 1500],
  [0.6, 1],
  ['250ms', 250],
  ['30s', 30_000],
  ['1.5s', 1_500],
  ['5m', 300_000],
  ['2h', 7_200_000],
  ['7d', 604_800_000],
])('%j is %d ms', (given, ms) => expect(durationMs(given)).toBe(ms));

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '', '30', 's', '-5s', '1e3s', '30 s', '30S', '5min'])(
  '%j is refused, and the message names what it was for',
  (given) => expect(() => durationMs(given, 'lease')).toThrow(/^lease: .* is not a number of ms/),
);

test.each([0, '0s', 0.4, '0.4ms'] as const)(
  'a lease of %j is refused: on the wire it would be the default',
  (given) => {
    expect(() => leaseDurationMs(given, 'leaseDuration')).toThrow('leaseDuration: a lease lasts at least 1ms');
  },
);
