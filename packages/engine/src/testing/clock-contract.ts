import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import type { Clock } from '../ports/clock.ts';

/** A machine with one process. */
export interface ClockWorld {
  /** The clock of the present process. */
  readonly clock: Clock;
  /** Advances time in whole ms. Due timers fire. */
  pass(ms: number): Promise<void>;
  /** Sets the system clock forward, or back with a negative number. */
  stepWall(ms: number): void;
  /** Ends the process and starts the next one in the same boot. */
  restart(): void;
  /** Ends the process and the boot, and starts the next process. */
  reboot(): void;
  /** Called after each test. */
  close?(): void;
}

const HOUR_MS = 3_600_000;

/** What every implementation of `Clock` must do. */
export function clockContract(name: string, open: () => ClockWorld): void {
  describe(`${name} keeps the contract of clocks`, () => {
    let world: ClockWorld;
    beforeEach(() => {
      world = open();
    });
    afterEach(() => world.close?.());

    const after = (ms: number): Instant => (world.clock.now() + ms) as Instant;

    test.each([HOUR_MS, -HOUR_MS])(
      '`now` advances with time, and ignores a step of the system clock by %i ms',
      async (step) => {
        const begin = world.clock.now();
        world.stepWall(step);
        await world.pass(10);
        expect(world.clock.now() - begin).toBe(10);
      },
    );

    test.each([
      [120_000, 'behind'],
      [-120_000, 'ahead of'],
    ])('`now` finds its way back to the system clock, set by %i ms, and never goes back', async (step) => {
      world.stepWall(step);
      const began = world.clock.now();
      let before = began;
      // By a thousandth of the time that passes: 120 s take 120,000 s.
      for (let passed = 0; passed < 130_000_000; passed += 500_000) {
        await world.pass(500_000);
        const now = world.clock.now();
        expect(Math.abs(now - before - 500_000)).toBeLessThanOrEqual(501);
        before = now;
      }
      expect(Math.abs(world.clock.now() - world.clock.wall())).toBeLessThanOrEqual(1);
    });

    test('a timer that is set while `now` catches up fires at its instant, not before and not late', async () => {
      world.stepWall(HOUR_MS);
      await world.pass(2_000);
      world.clock.now();
      await world.pass(2_000);
      const instant = after(30_000);
      let firedAt = 0;
      world.clock.at(instant, () => {
        firedAt = world.clock.now();
      });
      await world.pass(29_950);
      for (let ms = 0; ms < 100 && firedAt === 0; ms++) await world.pass(1);
      expect(firedAt).toBeGreaterThanOrEqual(instant);
      expect(firedAt).toBeLessThanOrEqual(instant + 2);
    });

    test('`wall` follows the system clock', async () => {
      const begin = world.clock.wall();
      await world.pass(10);
      world.stepWall(HOUR_MS);
      expect(world.clock.wall() - begin).toBe(HOUR_MS + 10);
    });

    describe('a timer', () => {
      test('fires once, at its instant and not before', async () => {
        const fired = vi.fn();
        world.clock.at(after(100), fired);
        await world.pass(99);
        expect(fired).not.toHaveBeenCalled();
        await world.pass(2);
        expect(fired).toHaveBeenCalledTimes(1);
        await world.pass(1_000);
        expect(fired).toHaveBeenCalledTimes(1);
      });

      test('for an instant in the past fires soon, but not during the call', async () => {
        const fired = vi.fn();
        world.clock.at(after(-HOUR_MS), fired);
        expect(fired).not.toHaveBeenCalled();
        await world.pass(2);
        expect(fired).toHaveBeenCalledTimes(1);
      });

      test('does not fire after it was cancelled', async () => {
        const fired = vi.fn();
        const cancel = world.clock.at(after(10), fired);
        cancel();
        await world.pass(20);
        cancel();
        expect(fired).not.toHaveBeenCalled();
      });
    });

    describe('the clock of the next process, resumed from a mark,', () => {
      /** Time between the mark and the resumed clock, if 700 ms pass and the system clock is set in between. */
      async function resumedAfter(start: 'restart' | 'reboot', stepMs: number): Promise<number> {
        const mark = world.clock.mark();
        await world.pass(700);
        world.stepWall(stepMs);
        world[start]();
        world.clock.resume(mark);
        return world.clock.now() - mark.instant;
      }

      test.each([
        ['knows exactly what passed in the same boot', 'restart', 0, 700],
        ['ignores in the same boot that the system clock was set forward', 'restart', HOUR_MS, 700],
        ['ignores in the same boot that the system clock was set back', 'restart', -HOUR_MS, 700],
        ['follows the system clock after a reboot', 'reboot', 0, 700],
        ['follows the system clock after a reboot if it was set forward', 'reboot', HOUR_MS, 700 + HOUR_MS],
        ['continues at the mark after a reboot if the system clock was set back', 'reboot', -HOUR_MS, 0],
      ] as const)('%s', async (_rule, start, stepMs, expected) => {
        expect(await resumedAfter(start, stepMs)).toBe(expected);
      });
    });
  });
}
