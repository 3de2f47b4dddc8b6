import { expect, test } from 'vitest';
import { CLOCK_LOOK_MS, ClockLog } from './clock-log.ts';
import { VirtualClock } from './ports/virtual-clock.ts';
import { keptLog } from './testing/kept-log.ts';

test('a clock that is far from the system clock is logged once for each change, and when it agrees again', async () => {
  const clock = new VirtualClock({ correction: 1 / 10 });
  const log = keptLog();
  const clockLog = new ClockLog({ clock, log });
  const pass = async (ms: number): Promise<string[]> => {
    for (let passed = 0; passed < ms; passed += CLOCK_LOOK_MS) {
      await clock.advance(CLOCK_LOOK_MS);
      clockLog.look();
    }
    return log.lines.splice(0).map(({ level, message }) => `${level}: ${message.split(',')[0]}`);
  };
  expect(await pass(60_000)).toEqual([]);
  clock.stepWall(120_000);
  expect(await pass(60_000)).toEqual(['warn: the clock of the engine is 120 s behind the system clock']);
  clock.stepWall(-240_000);
  expect(await pass(60_000)).toEqual(['warn: the clock of the engine is 126 s ahead of the system clock']);
  expect(await pass(1_500_000)).toEqual(['info: the clock of the engine agrees with the system clock again']);
  expect(await pass(60_000)).toEqual([]);
});
