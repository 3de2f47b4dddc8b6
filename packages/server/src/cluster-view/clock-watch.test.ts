import { expect, test } from 'vitest';
import { keptLog } from '../grpc/testing/start-server.ts';
import { VirtualClock, VirtualTime } from '../testing/virtual-clock.ts';
import { ClockWatch } from './clock-watch.ts';

test('a clock that differs much is reported once, and once more when it agrees again', () => {
  const clock = new VirtualClock({ time: new VirtualTime() });
  const log = keptLog();
  const watch = new ClockWatch({ clock, log, members: () => new Map() });
  for (const aheadMs of [500, -2_000, 3_600_000, 3_600_000, 45_000, 1_000, 1_000, -3_600_000]) {
    watch.heard('b', clock.now() + aheadMs);
  }
  expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
    ['warn', 'the clock of member b is 3600 s ahead of this one: set one of them'],
    ['info', 'the clock of member b agrees with this one again'],
    ['warn', 'the clock of member b is 3600 s behind this one: set one of them'],
  ]);
});
