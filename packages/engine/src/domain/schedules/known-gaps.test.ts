import { expect, test } from 'vitest';
import { KnownGaps } from './known-gaps.ts';

/** A rule that runs at whole hundreds up to 1,000, and the instants for which it was searched. */
function setUp() {
  const gaps = new KnownGaps();
  const searched: number[] = [];
  const next = (after: number, rule = 'r'): number | undefined =>
    gaps.next(rule, after, () => {
      searched.push(after);
      const run = (Math.floor(after / 100) + 1) * 100;
      return run > 1000 ? undefined : run;
    });
  return { next, searched };
}

test('a run is searched once for all instants after the first one that was asked for', () => {
  const { next, searched } = setUp();
  expect([next(120), next(150), next(199), next(120)]).toEqual([200, 200, 200, 200]);
  expect(searched).toEqual([120]);
  // Nothing is known of the time before it.
  expect([next(110), next(115)]).toEqual([200, 200]);
  expect(searched).toEqual([120, 110]);
});

test('the runs before and after an instant are known at the same time, and also that there is none', () => {
  const { next, searched } = setUp();
  for (let round = 0; round < 3; round++) {
    expect([next(150), next(200), next(1000), next(5000)]).toEqual([200, 300, undefined, undefined]);
  }
  expect(searched).toEqual([150, 200, 1000]);
});

test('rules do not know of each other', () => {
  const { next, searched } = setUp();
  expect([next(150, 'a'), next(150, 'b')]).toEqual([200, 200]);
  expect(searched).toEqual([150, 150]);
});

test('few gaps of a rule are remembered, and of many rules the latest', () => {
  const { next, searched } = setUp();
  for (const after of [0, 100, 200, 300, 400]) next(after);
  next(0);
  expect(searched).toEqual([0, 100, 200, 300, 400, 0]);
  for (let rule = 0; rule < 5_000; rule++) next(0, String(rule));
  expect(searched).toHaveLength(5_006);
  next(0, '4999');
  expect(searched).toHaveLength(5_006);
});
