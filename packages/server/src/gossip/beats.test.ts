import { expect, test } from 'vitest';
import { BeatWatch } from './beats.ts';

test('a thread that does not beat stands still for as long as it is watched', () => {
  let beat = 0;
  const watch = new BeatWatch(() => beat, 100, 0);
  expect([100, 200, 300].map((now) => watch.look(now))).toEqual([100, 200, 300]);
  beat++;
  expect(watch.look(400)).toBe(0);
  expect(watch.look(500)).toBe(100);
});

test('time in which the watcher stood still itself does not count', () => {
  const watch = new BeatWatch(() => 0, 100, 0);
  expect(watch.look(30_000)).toBe(200);
});
