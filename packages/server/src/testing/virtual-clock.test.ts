import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { VirtualClock, VirtualTime } from './virtual-clock.ts';

const after = (clock: VirtualClock, ms: number) => (clock.now() + ms) as Instant;

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

  test('a cancelled timer does not fire', async () => {
    const clock = new VirtualClock();
    let fired = false;
    const cancel = clock.at(after(clock, 10), () => {
      fired = true;
    });
    cancel();
    await clock.advance(20);
    expect(fired).toBe(false);
  });

  test('run moves time only as far as a promise needs', async () => {
    const clock = new VirtualClock();
    const start = clock.now();
    clock.at(after(clock, 1000), () => {});
    await clock.run(new Promise<void>((resolve) => void clock.at(after(clock, 70), resolve)));
    expect(clock.now() - start).toBe(70);
  });

  test('run says so when a promise cannot settle', async () => {
    await expect(new VirtualTime().run(new Promise(() => {}))).rejects.toThrow('no timer left');
  });
});

describe('the clock of a process', () => {
  test('a step of the system clock does not show in a running process', async () => {
    const clock = new VirtualClock();
    const before = clock.now();
    clock.stepWall(-3_600_000);
    await clock.advance(5);
    expect(clock.now() - before).toBe(5);
  });

  test('within one boot a resumed clock goes on exactly, whatever the system clock says', async () => {
    const first = new VirtualClock();
    const mark = first.mark();
    first.stepWall(3_600_000);
    const second = first.restart();
    await second.advance(250);
    second.resume(mark);
    expect(second.now() - mark.instant).toBe(250);
  });

  test.each([
    ['believed when it is ahead', 60_000, 60_000 + 250],
    ['not followed back', -60_000, 0],
  ])('after a reboot the system clock is %s', async (_case, stepMs, expected) => {
    const first = new VirtualClock();
    const mark = first.mark();
    first.stepWall(stepMs);
    await first.advance(250);
    const second = first.reboot();
    second.resume(mark);
    expect(second.now() - mark.instant).toBe(expected);
  });

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
