import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { type ClockWorld, clockContract } from '../testing/clock-contract.ts';
import { type ClockSources, SystemClock } from './system-clock.ts';

const START = 1_700_000_000_000;
const DAY = 24 * 3600 * 1000;

/** A machine whose time a test advances. */
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

clockContract('the system clock', (): ClockWorld => {
  vi.useFakeTimers();
  const machine = new Machine();
  let clock = new SystemClock({}, machine);
  return {
    get clock() {
      return clock;
    },
    pass: async (ms) => {
      machine.pass(ms);
      vi.advanceTimersByTime(ms);
    },
    stepWall: (ms) => {
      machine.wallMs += ms;
    },
    restart: () => {
      clock = new SystemClock({}, machine);
    },
    reboot: () => {
      machine.boot = 'boot 2';
      machine.uptimeMs = 20_000;
      clock = new SystemClock({}, machine);
    },
    close: () => void vi.useRealTimers(),
  };
});

describe('the system clock', () => {
  test('starts at the time of the machine and counts whole milliseconds', () => {
    const machine = new Machine();
    const clock = new SystemClock({}, machine);
    expect(clock.now()).toBe(START);
    machine.pass(1234.9);
    expect(clock.now()).toBe(START + 1234);
  });

  test('also shows the time of the machine, which continues while the machine is suspended', () => {
    const machine = new Machine();
    const clock = new SystemClock({}, machine);
    machine.pass(10);
    machine.wallMs += 60_000;
    expect([clock.now() - START, clock.wall() - START]).toEqual([10, 60_010]);
  });

  test('may follow another clock than that of the machine', () => {
    const machine = new Machine();
    let databaseMs = START - DAY;
    const clock = new SystemClock({ wall: () => databaseMs }, machine);
    expect([clock.now(), clock.wall()]).toEqual([START - DAY, START - DAY]);
    machine.wallMs += DAY;
    machine.elapsedMs += 10_000;
    databaseMs += 10_000;
    expect(clock.now()).toBe(START - DAY + 10_000);
    // Messages have whole milliseconds.
    databaseMs += 0.9;
    expect(clock.wall()).toBe(START - DAY + 10_000);
  });

  describe('resumed', () => {
    /** Time between a mark and the resumed clock of the next process. `passedMs` pass, and the machine changes in between. */
    function resumed(passedMs: number, change: (machine: Machine) => void): number {
      const machine = new Machine();
      const mark = new SystemClock({}, machine).mark();
      machine.pass(passedMs);
      change(machine);
      const next = new SystemClock({}, machine);
      next.resume(mark);
      return next.now() - mark.instant;
    }

    test('treats an uptime that went back, and a boot without an id, as a reboot', () => {
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

  test.each([
    [60_000, 700 + 60_000],
    [-60_000, 700],
  ])('that may catch up continues at the system clock, set by %i ms, if it is behind', (stepMs, passedMs) => {
    const machine = new Machine();
    const mark = new SystemClock({}, machine).mark();
    machine.pass(700);
    machine.wallMs += stepMs;
    const next = new SystemClock({ catchesUp: true }, machine);
    next.resume(mark);
    expect(next.now() - mark.instant).toBe(passedMs);
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

    test('may be further away than the longest setTimeout', () => {
      const clock = new SystemClock({}, machine);
      const fired = vi.fn();
      clock.at((START + 60 * DAY) as Instant, fired);
      for (let day = 0; day < 59; day++) pass(DAY);
      expect(fired).not.toHaveBeenCalled();
      pass(2 * DAY);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('continue to wait if the timeout fires early', () => {
      const clock = new SystemClock({}, machine);
      const fired = vi.fn();
      clock.at((START + 100) as Instant, fired);
      vi.advanceTimersByTime(101); // the timeout fires before the clock has reached the instant
      expect(fired).not.toHaveBeenCalled();
      pass(101);
      expect(fired).toHaveBeenCalledTimes(1);
    });

    test('do not fire after they are cancelled, also if they were set again', () => {
      const clock = new SystemClock({}, machine);
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
