import { expect, test } from 'vitest';
import { ManualTiming } from '../testing/manual-timing.ts';
import { LoopWatch } from './loop-watch.ts';

function setUp() {
  const timing = new ManualTiming();
  /** The event loop's turn: timers first, then the sockets, then what waited for them to be polled. */
  const afterSockets: (() => void)[] = [];
  const watch = new LoopWatch(timing, (callback) => afterSockets.push(callback));
  const pollSockets = (): void => {
    for (const callback of afterSockets.splice(0)) callback();
  };
  return { timing, watch, pollSockets };
}

test('follows the polls while there is a watcher', async () => {
  const { timing, watch, pollSockets } = setUp();
  watch.watch();
  await timing.advance(100);
  pollSockets();
  expect(watch.polledAt).toBe(timing.now());
});

test('an answer that is read first after a block of the event loop may be as old as the block', async () => {
  const { timing, watch, pollSockets } = setUp();
  watch.watch();
  await timing.advance(100);
  pollSockets();
  const before = timing.now();
  timing.block(60_000);
  await timing.advance(0); // The timer goes off late, and the answer is read in the poll that follows.
  expect(watch.polledAt).toBe(before);
  pollSockets();
  expect(watch.polledAt).toBe(before + 60_000);
});

test('rests without watchers', async () => {
  const { timing, watch, pollSockets } = setUp();
  const stop = watch.watch();
  const again = watch.watch();
  stop();
  again();
  await timing.advance(100);
  pollSockets();
  expect(timing.timers).toBe(0);
});

test('has one timer, however often watching begins and ends', async () => {
  const { timing, watch } = setUp();
  for (let i = 0; i < 10; i++) watch.watch()();
  watch.watch();
  expect(timing.timers).toBe(1);
});
