import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { QueueRates, RateMeter } from './rates.ts';

const MINUTE = 60_000;
const at = (ms: number): Instant => (1e12 + ms) as Instant;

/** Counts ten events a second for this time, two at once. */
function tenPerSecond(meter: RateMeter, fromMs: number, toMs: number): void {
  for (let ms = fromMs; ms < toMs; ms += 200) meter.count(2, at(ms));
}

describe('a rate', () => {
  test('is zero before anything happens', () => {
    expect(new RateMeter().perSecond(at(0))).toBe(0);
  });

  test('reaches the actual rate in a few minutes', () => {
    const meter = new RateMeter();
    tenPerSecond(meter, 0, MINUTE);
    expect(meter.perSecond(at(MINUTE))).toBeCloseTo(10 * (1 - Math.exp(-1)), 1);
    tenPerSecond(meter, MINUTE, 10 * MINUTE);
    expect(meter.perSecond(at(10 * MINUTE))).toBeCloseTo(10, 1);
  });

  test('decays without events, however often it is read', () => {
    const [watched, unwatched] = [new RateMeter(), new RateMeter()];
    for (const meter of [watched, unwatched]) meter.count(600, at(0));
    for (let ms = 0; ms < MINUTE; ms += 1000) watched.perSecond(at(ms));
    expect(watched.perSecond(at(MINUTE))).toBeCloseTo(10 / Math.E, 6);
    expect(unwatched.perSecond(at(MINUTE))).toBeCloseTo(10 / Math.E, 6);
  });
});

describe('the mean lease', () => {
  test('starts with the first lease and then follows slowly', () => {
    const rates = new QueueRates();
    expect(rates.meanLeaseMs).toBe(0);
    rates.leaseLasted(1000);
    expect(rates.meanLeaseMs).toBe(1000);
    rates.leaseLasted(3000);
    expect(rates.meanLeaseMs).toBe(1100);
    for (let i = 0; i < 200; i++) rates.leaseLasted(3000);
    expect(rates.meanLeaseMs).toBeCloseTo(3000, 0);
  });
});
