import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DeadlineWheel, type WheelTiming } from './deadline-wheel.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const timing: WheelTiming = {
  now: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function setUp() {
  const due: string[] = [];
  const wheel = new DeadlineWheel<string>(timing, (item) => due.push(item));
  return { due, wheel };
}

test('items come due in order, never early, and within a tick', async () => {
  const { due, wheel } = setUp();
  wheel.add('late', timing.now() + 500);
  wheel.add('soon', timing.now() + 105);
  await advance(104);
  expect(due).toEqual([]);
  await advance(20);
  expect(due).toEqual(['soon']);
  await advance(400);
  expect(due).toEqual(['soon', 'late']);
});

test('a removed item never comes due', async () => {
  const { due, wheel } = setUp();
  const slot = wheel.add('gone', timing.now() + 50);
  wheel.add('kept', timing.now() + 50);
  wheel.remove('gone', slot);
  await advance(100);
  expect(due).toEqual(['kept']);
});

test('there is one timer for any number of items, and none for an empty wheel', async () => {
  const timers = new Set<object>();
  const counted: WheelTiming = {
    now: timing.now,
    after(ms, callback) {
      const timer = {};
      timers.add(timer);
      const cancel = timing.after(ms, () => {
        timers.delete(timer);
        callback();
      });
      return () => {
        timers.delete(timer);
        cancel();
      };
    },
  };
  const wheel = new DeadlineWheel<string>(counted, () => {});
  for (let i = 0; i < 1_000; i++) {
    const slot = wheel.add(`${i}`, timing.now() + 1_000 + i);
    wheel.remove(`${i}`, slot);
  }
  expect(timers.size).toBe(1);
  await advance(1_100);
  expect(timers.size).toBe(0);
});

test('an item added when another one comes due is not lost', async () => {
  const due: string[] = [];
  const wheel = new DeadlineWheel<string>(timing, (item) => {
    due.push(item);
    if (item === 'first') wheel.add('second', timing.now());
  });
  wheel.add('first', timing.now() + 10);
  await advance(100);
  expect(due).toEqual(['first', 'second']);
});
