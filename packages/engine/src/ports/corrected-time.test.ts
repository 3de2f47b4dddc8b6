import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CorrectedTime } from './corrected-time.ts';

const START = 1_700_000_000_000;
const DAY_MS = 24 * 3_600_000;

/** A machine whose times a test moves. */
function machine(aheadMs = 0) {
  const sources = {
    wallMs: START + aheadMs,
    elapsedMs: 0.25,
    wall: () => sources.wallMs,
    monotonic: () => sources.elapsedMs,
    pass: (ms: number): void => {
      sources.wallMs += ms;
      sources.elapsedMs += ms;
    },
  };
  return sources;
}

const rates = fc.constantFrom(0, 1 / 1000, 1 / 10);
const actions = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(5_000) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(DAY_MS) }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('step' as const), ms: fc.integer({ min: -DAY_MS, max: DAY_MS }) }),
    },
  ),
  { maxLength: 60 },
);

describe('corrected time', () => {
  test('never goes back and never jumps, however the system clock is set', () => {
    fc.assert(
      fc.property(rates, actions, (rate, history) => {
        const sources = machine();
        const time = new CorrectedTime(sources, rate);
        let before = time.now();
        for (const { do: what, ms } of history) {
          if (what === 'step') sources.wallMs += ms;
          else sources.pass(ms);
          const passed = what === 'step' ? 0 : ms;
          const now = time.now();
          expect(Math.abs(now - before - passed)).toBeLessThanOrEqual(passed * rate + 0.01);
          before = now;
        }
      }),
    );
  });

  test('agrees with the system clock at last, and does not overshoot', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -600_000, max: 600_000 }),
        fc.integer({ min: 500, max: 30_000 }),
        (stepMs, lookMs) => {
          const sources = machine();
          const time = new CorrectedTime(sources, 1 / 10);
          sources.wallMs += stepMs;
          let missing = Math.abs(stepMs);
          let overshot = 0;
          for (let passed = 0; passed < Math.abs(stepMs) * 10 + 2 * (lookMs + 1_000); passed += lookMs) {
            sources.pass(lookMs);
            const left = Math.abs(sources.wallMs - time.now());
            overshot = Math.max(overshot, left - missing);
            missing = left;
          }
          expect(overshot).toBeLessThan(0.01);
          expect(missing).toBeLessThan(0.01);
        },
      ),
      { numRuns: 30 },
    );
  });

  test('tells a time until an instant that is never too long', () => {
    fc.assert(
      fc.property(
        rates,
        fc.integer({ min: -DAY_MS, max: DAY_MS }),
        fc.nat(DAY_MS),
        fc.array(fc.integer({ min: 1, max: 100_000 }), { maxLength: 20 }),
        (rate, stepMs, ahead, looks) => {
          const sources = machine();
          const time = new CorrectedTime(sources, rate);
          sources.wallMs += stepMs;
          for (const ms of looks) {
            sources.pass(ms);
            time.now();
          }
          const instant = time.now() + ahead;
          const wait = time.until(instant);
          // One ms before, the instant has not come.
          if (wait > 1) {
            sources.pass(wait - 1);
            expect(time.now()).toBeLessThan(instant);
          }
        },
      ),
    );
  });

  test('with a rate of 0 follows the monotonic clock only', () => {
    const sources = machine();
    const time = new CorrectedTime(sources, 0);
    sources.wallMs += DAY_MS;
    for (let hour = 0; hour < 48; hour++) {
      sources.pass(3_600_000);
      expect(time.now()).toBe(START + (hour + 1) * 3_600_000);
    }
  });
});
