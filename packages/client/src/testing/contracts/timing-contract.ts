import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MAX_TIMER_MS, type Timing } from '../../transport/timing.ts';

export interface TimingWorld {
  readonly timing: Timing;
  /** Advances time in whole ms. Due timers fire. */
  pass(ms: number): Promise<void>;
  /** Called after each test. */
  close?(): void;
}

/** What every implementation of `Timing` must do. */
export function timingContract(name: string, open: () => TimingWorld): void {
  describe(`${name} keeps the contract of timing`, () => {
    let world: TimingWorld;
    beforeEach(() => {
      world = open();
    });
    afterEach(() => world.close?.());

    test('`now` advances with time', async () => {
      const begin = world.timing.now();
      await world.pass(10);
      expect(world.timing.now() - begin).toBe(10);
    });

    test.each([true, false])('a timer fires once, at its time and not before (hold: %s)', async (hold) => {
      const fired = vi.fn();
      world.timing.after(100, fired, hold);
      await world.pass(99);
      expect(fired).not.toHaveBeenCalled();
      await world.pass(1);
      expect(fired).toHaveBeenCalledTimes(1);
      await world.pass(1_000);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test.each([0, -5])('a timer of %i ms fires soon, but not during the call', async (delayMs) => {
      const fired = vi.fn();
      world.timing.after(delayMs, fired);
      expect(fired).not.toHaveBeenCalled();
      await world.pass(2);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('timers fire in the order of their times, also those that a timer starts', async () => {
      const fired: string[] = [];
      world.timing.after(30, () => fired.push('30'));
      world.timing.after(10, () => {
        fired.push('10');
        world.timing.after(10, () => fired.push('10 + 10'));
      });
      world.timing.after(21, () => fired.push('21'));
      await world.pass(40);
      expect(fired).toEqual(['10', '10 + 10', '21', '30']);
    });

    test('a cancelled timer does not fire, and cancelling again or late does nothing', async () => {
      const fired = vi.fn();
      const cancel = world.timing.after(10, fired);
      cancel();
      cancel();
      const cancelLate = world.timing.after(10, fired);
      await world.pass(20);
      cancelLate();
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('a timer fires after the longest delay at the latest', async () => {
      const fired = vi.fn();
      world.timing.after(Number.MAX_SAFE_INTEGER, fired);
      await world.pass(MAX_TIMER_MS - 1);
      expect(fired).not.toHaveBeenCalled();
      await world.pass(1);
      expect(fired).toHaveBeenCalledTimes(1);
    });
  });
}
