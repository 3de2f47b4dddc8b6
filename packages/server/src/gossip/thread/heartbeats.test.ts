import { expect, test } from 'vitest';
import { HeartbeatWatch } from './heartbeats.ts';

test('a thread that sends no heartbeat stands still for as long as it is watched', () => {
  let heartbeat = 0;
  const watch = new HeartbeatWatch(() => heartbeat, 100, 0);
  expect([100, 200, 300].map((now) => watch.look(now))).toEqual([100, 200, 300]);
  heartbeat++;
  expect(watch.look(400)).toBe(0);
  expect(watch.look(500)).toBe(100);
});

test('a standstill of the watcher itself does not count', () => {
  const watch = new HeartbeatWatch(() => 0, 100, 0);
  expect(watch.look(30_000)).toBe(200);
});
