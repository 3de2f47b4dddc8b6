import { expect, test } from 'vitest';
import { ManualTiming } from '../testing/manual-timing.ts';
import { DeadlineWheel } from './deadline-wheel.ts';

function setUp() {
  const timing = new ManualTiming();
  const due: string[] = [];
  const wheel = new DeadlineWheel<string>(timing, (item) => due.push(item));
  return { timing, due, wheel };
}

test('items come due in order, never early, and within a tick', async () => {
  const { timing, due, wheel } = setUp();
  wheel.add('late', timing.now() + 500);
  wheel.add('soon', timing.now() + 105);
  await timing.advance(104);
  expect(due).toEqual([]);
  await timing.advance(20);
  expect(due).toEqual(['soon']);
  await timing.advance(400);
  expect(due).toEqual(['soon', 'late']);
});

test('a removed item never comes due', async () => {
  const { timing, due, wheel } = setUp();
  const slot = wheel.add('gone', timing.now() + 50);
  wheel.add('kept', timing.now() + 50);
  wheel.remove('gone', slot);
  await timing.advance(100);
  expect(due).toEqual(['kept']);
});

test('there is one timer for any number of items, and none for an empty wheel', async () => {
  const { timing, wheel } = setUp();
  for (let i = 0; i < 1_000; i++) {
    const slot = wheel.add(`${i}`, timing.now() + 1_000 + i);
    wheel.remove(`${i}`, slot);
  }
  expect(timing.timers).toBe(1);
  await timing.advance(1_100);
  expect(timing.timers).toBe(0);
});

test('an item added when another one comes due is not lost', async () => {
  const timing = new ManualTiming();
  const due: string[] = [];
  const wheel = new DeadlineWheel<string>(timing, (item) => {
    due.push(item);
    if (item === 'first') wheel.add('second', timing.now());
  });
  wheel.add('first', timing.now() + 10);
  await timing.advance(100);
  expect(due).toEqual(['first', 'second']);
});
