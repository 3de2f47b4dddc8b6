import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { type ClockSources, SystemClock } from './system-clock.ts';

const START = 1_700_000_000_000;
const DAY = 24 * 3600 * 1000;

/** A machine whose sources move only when told to. */
class Machine implements ClockSources {
  wallMs = START;
  elapsedMs = 0.25;
  uptimeMs = 5_000;
  boot: string | undefined = 'boot 1';

  wall = () => this.wallMs;
  monotonic = () => this.elapsedMs;
  uptime = () => this.uptimeMs;
  bootId = () => this.boot;

  pass(ms: number): void {
    this.wallMs += ms;
    this.elapsedMs += ms;
    this.uptimeMs += ms;
  }
}

describe('the system clock', () => {
  test('starts at the machine’s time and goes on with what passes, in whole milliseconds', () => {
    const machine = new Machine();
    const clock = new SystemClock(machine);
    expect(clock.now()).toBe(START);
    machine.pass(1234.9);
    expect(clock.now()).toBe(START + 1234);
  });

  test.each([3_600_000, -3_600_000])('does not follow the machine’s time when that is set by %i ms', (stepMs) => {
    const machine = new Machine();
    const clock = new SystemClock(machine);
    machine.wallMs += stepMs;
    machine.pass(10);
    expect(clock.now()).toBe(START + 10);
  });

  test('tells the machine’s time as well, which goes on while the machine is suspended', () => {
    const machine = new Machine();
    const clock = new SystemClock(machine);
    machine.pass(10);
    machine.wallMs += 60_000;
    expect([clock.now() - START, clock.wall() - START]).toEqual([10, 60_010]);
  });

  describe('resumed', () => {
    /** The instant of the next process, `passedMs` after the mark of the one before; in between the machine changed. */
    function resumed(passedMs: number, change: (machine: Machine) => void): number {
      const machine = new Machine();
      const mark = new SystemClock(machine).mark();
      machine.pass(passedMs);
      change(machine);
      const next = new SystemClock(machine);
      next.resume(mark);
      return next.now() - mark.instant;
    }

    test('in the same boot knows what passed, whatever became of the machine’s time', () => {
      expect(resumed(700, () => undefined)).toBe(700);
      expect(resumed(700, (machine) => (machine.wallMs += DAY))).toBe(700);
      expect(resumed(700, (machine) => (machine.wallMs -= DAY))).toBe(700);
    });

    const reboot = (machine: Machine) => {
      machine.boot = 'boot 2';
      machine.uptimeMs = 20_000;
    };
    test('after a reboot believes the machine’s time, unless that went back', () => {
      expect(resumed(700, reboot)).toBe(700);
      expect(
        resumed(700, (machine) => {
          reboot(machine);
          machine.wallMs += DAY;
        }),
      ).toBe(700 + DAY);
      expect(
        resumed(700, (machine) => {
          reboot(machine);
          machine.wallMs -= DAY;
        }),
      ).toBe(0);
    });

    test('takes an uptime that went back, or a boot it cannot name, for a reboot', () => {
      const restartedContainer = (machine: Machine) => {
        machine.uptimeMs = 0;
        machine.wallMs -= DAY;
      };
      const nameless = (machine: Machine) => {
        machine.boot = undefined;
        machine.wallMs -= DAY;
      };
      expect(resumed(700, restartedContainer)).toBe(0);
      expect(resumed(700, nameless)).toBe(0);
    });
  });

  describe('timers', () => {
    let machine: Machine;
    beforeEach(() => {
      vi.useFakeTimers();
      machine = new Machine();
    });
    afterEach(() => {
      vi.useRealTimers();
    });
    const pass = (ms: number) => {
      machine.pass(ms);
      vi.advanceTimersByTime(ms);
    };

    test('fire once, at their instant, not before', () => {
      const clock = new SystemClock(machine);
      const fired = vi.fn();
      clock.at((START + 100) as Instant, fired);
      pass(99);
      expect(fired).not.toHaveBeenCalled();
      pass(2);
      expect(fired).toHaveBeenCalledTimes(1);
      pass(1000);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('for an instant in the past fire soon, not at once', () => {
      const clock = new SystemClock(machine);
      const fired = vi.fn();
      clock.at((START - DAY) as Instant, fired);
      expect(fired).not.toHaveBeenCalled();
      pass(2);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('may be further away than setTimeout can wait', () => {
      const clock = new SystemClock(machine);
      const fired = vi.fn();
      clock.at((START + 60 * DAY) as Instant, fired);
      for (let day = 0; day < 59; day++) pass(DAY);
      expect(fired).not.toHaveBeenCalled();
      pass(2 * DAY);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('wait on when the timeout comes early', () => {
      const clock = new SystemClock(machine);
      const fired = vi.fn();
      clock.at((START + 100) as Instant, fired);
      vi.advanceTimersByTime(101); // the event loop believes that it is time, the clock does not
      expect(fired).not.toHaveBeenCalled();
      pass(101);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('do not fire when cancelled, also after they were set again', () => {
      const clock = new SystemClock(machine);
      const fired = vi.fn();
      const cancel = clock.at((START + 60 * DAY) as Instant, fired);
      for (let day = 0; day < 30; day++) pass(DAY);
      cancel();
      for (let day = 0; day < 60; day++) pass(DAY);
      expect(fired).not.toHaveBeenCalled();
      cancel();
    });
  });

  test('reads the real machine', () => {
    const before = Date.now();
    const clock = new SystemClock();
    expect(clock.now()).toBeGreaterThanOrEqual(before - 1);
    const mark = clock.mark();
    const next = new SystemClock();
    next.resume(mark);
    // The uptime comes in steps of 10 ms.
    expect(Math.abs(next.now() - mark.instant)).toBeLessThan(1000);
  });
});
