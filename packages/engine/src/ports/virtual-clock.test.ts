import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { type ClockWorld, clockContract } from '../testing/clock-contract.ts';
import { VirtualClock, VirtualTime } from './virtual-clock.ts';

const after = (clock: VirtualClock, ms: number) => (clock.now() + ms) as Instant;

clockContract('the virtual clock', (): ClockWorld => {
  let clock = new VirtualClock();
  return {
    get clock() {
      return clock;
    },
    pass: (ms) => clock.advance(ms),
    stepWall: (ms) => clock.stepWall(ms),
    restart: () => {
      clock = clock.restart();
    },
    reboot: () => {
      clock = clock.reboot();
    },
  };
});

describe('virtual time', () => {
  test('timers fire in order of their instants, and in the order they were set at one instant', async () => {
    const clock = new VirtualClock();
    const fired: string[] = [];
    clock.at(after(clock, 20), () => fired.push('third'));
    clock.at(after(clock, 10), () => fired.push('first'));
    clock.at(after(clock, 10), () => fired.push('second'));
    clock.at(after(clock, 21), () => fired.push('too late'));
    await clock.advance(20);
    expect(fired).toEqual(['first', 'second', 'third']);
  });

  test('promise chains of one timer settle before the next one fires', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const chain = async (name: string) => {
      for (let hop = 0; hop < 50; hop++) await undefined;
      seen.push(name);
    };
    clock.at(after(clock, 1), () => void chain('a').then(() => chain('b')));
    clock.at(after(clock, 2), () => seen.push('next timer'));
    await clock.advance(2);
    expect(seen).toEqual(['a', 'b', 'next timer']);
  });

  test('a timer set by a timer fires in the same advance if it is due', async () => {
    const clock = new VirtualClock();
    const at: number[] = [];
    const start = clock.now();
    const again = () => {
      at.push(clock.now() - start);
      clock.at(after(clock, 10), again);
    };
    again();
    await clock.advance(35);
    expect(at).toEqual([0, 10, 20, 30]);
    expect(clock.now() - start).toBe(35);
  });

  test('run advances time only as far as a promise needs', async () => {
    const clock = new VirtualClock();
    const start = clock.now();
    clock.at(after(clock, 1000), () => {});
    await clock.run(new Promise<void>((resolve) => void clock.at(after(clock, 70), resolve)));
    expect(clock.now() - start).toBe(70);
  });

  test('run rejects if the promise cannot settle', async () => {
    await expect(new VirtualTime().run(new Promise(() => {}))).rejects.toThrow('no timer left');
  });
});

describe('the clock of a process', () => {
  test('timers end with their process', async () => {
    const first = new VirtualClock();
    let fired = false;
    first.at(after(first, 10), () => {
      fired = true;
    });
    await first.restart().advance(20);
    expect(fired).toBe(false);
  });
});
